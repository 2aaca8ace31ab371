-- feed_read() for tests that run on both editions. The SQL edition itself does not have this function.
CREATE OR REPLACE FUNCTION @extschema@.feed_read(
    name text, row_type anyelement, max_rows int DEFAULT NULL, owner regrole DEFAULT NULL
)
RETURNS SETOF anyelement
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET @reads@ SET @pinned@
AS $$
DECLARE
    f inorder_internal.feed_view := inorder_internal.open_next_batch(
        inorder_internal.caller(), name, owner, max_rows, false, true);
    b @extschema@.feed_batch := (f.next).batch;
BEGIN
    PERFORM inorder_internal.check_row_type(f.t, pg_typeof(row_type));
    IF NOT (f.next).has_rows THEN
        RETURN;
    END IF;
    BEGIN
        RETURN QUERY EXECUTE inorder_internal.batch_query(f.t, NULL, b, 'e.*', true);
    EXCEPTION WHEN datatype_mismatch THEN
        PERFORM inorder_internal.say_columns_changed((f.t).relation, SQLERRM);
    END;
    PERFORM inorder_internal.unchanged_members(f.t, (f.next).members),
            inorder_internal.move_feed(f, b, (f.next).is_all);
END
$$;
