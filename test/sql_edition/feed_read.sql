-- For the tests of both editions, which read by feed_read: with it the SQL edition does what they ask of the C extension.
CREATE OR REPLACE FUNCTION @extschema@.feed_read(
    name text, row_type anyelement, max_rows int DEFAULT NULL, owner regrole DEFAULT NULL
)
RETURNS SETOF anyelement
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET @reads@ SET @pinned@
AS $$
DECLARE
    k inorder_internal.taken := inorder_internal.look_next(inorder_internal.caller(), name, owner, max_rows, false, true);
    b @extschema@.feed_batch := (k.next).batch;
BEGIN
    PERFORM inorder_internal.check_row_type(k.relation, pg_typeof(row_type));
    IF NOT (k.next).has_rows THEN
        RETURN;
    END IF;
    BEGIN
        RETURN QUERY EXECUTE inorder_internal.batch_query(k.t, NULL, b, 'e.*', true);
    EXCEPTION WHEN datatype_mismatch THEN
        PERFORM inorder_internal.say_columns_changed((k.t).relation, SQLERRM);
    END;
    PERFORM inorder_internal.unchanged_members(k.t, (k.next).members),
            inorder_internal.move_feed(k, b, (k.next).is_all);
END
$$;
