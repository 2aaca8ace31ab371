-- The rows of a batch, for reader_batch_rows() and feed_apply(). This function does not flush the WAL.
CREATE FUNCTION inorder_internal.rows_of_kept(relation regclass, batch @extschema@.feed_batch, row_type anyelement)
RETURNS SETOF anyelement
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET @reads@ SET @pinned@ AS $$
DECLARE
    k inorder_internal.found_rows := inorder_internal.kept_rows(inorder_internal.caller(), relation, batch);
BEGIN
    PERFORM inorder_internal.check_row_type(relation, pg_typeof(row_type));
    BEGIN
        RETURN QUERY EXECUTE inorder_internal.text_for_rows(k.t, k.batch, true);
    EXCEPTION WHEN datatype_mismatch THEN
        PERFORM inorder_internal.say_columns_changed(relation, SQLERRM);
    END;
    PERFORM inorder_internal.unchanged_members(k.t, k.members);
END $$;

---- reader_batch_rows: plpgsql keys
DECLARE
    columns smallint[] := inorder_internal.columns_of(pg_typeof(row_type));
BEGIN
    -- A statement without EXECUTE would be planned once in a session, for the columns that the table has at that time.
    BEGIN
        RETURN QUERY EXECUTE 'SELECT * FROM inorder_internal.rows_of_kept($1, $2, $3)' USING relation, batch, row_type;
    EXCEPTION WHEN datatype_mismatch THEN
        PERFORM inorder_internal.check_row_type(relation, pg_typeof(row_type)),
                inorder_internal.say_columns_changed(relation, SQLERRM);
    END;
    PERFORM inorder_internal.refuse_dropped(relation, columns), inorder_internal.make_durable(false);
END
