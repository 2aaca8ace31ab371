---- reader_batch_rows: plpgsql reads
DECLARE
    k inorder_internal.rows_found := inorder_internal.kept_rows(inorder_internal.caller(), relation, batch);
BEGIN
    PERFORM inorder_internal.check_row_type(relation, pg_typeof(row_type)), inorder_internal.allow_bitmaps(k.t);
    BEGIN
        RETURN QUERY EXECUTE k.query;
    EXCEPTION WHEN datatype_mismatch THEN
        PERFORM inorder_internal.say_columns_changed(relation, SQLERRM);
    END;
    PERFORM inorder_internal.unchanged_members(k.t, k.members);
END
