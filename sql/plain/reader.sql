---- reader_batch_rows: plpgsql reads
DECLARE
    columns smallint[] := inorder_internal.columns_of(pg_typeof(row_type));
    k inorder_internal.found_rows := inorder_internal.kept_rows(inorder_internal.caller(), relation, batch);
BEGIN
    PERFORM inorder_internal.check_row_type(k.t, pg_typeof(row_type));
    BEGIN
        RETURN QUERY EXECUTE inorder_internal.text_for_rows(k.t, k.batch, true);
    EXCEPTION WHEN datatype_mismatch THEN
        PERFORM inorder_internal.say_columns_changed(relation, SQLERRM);
    END;
    PERFORM inorder_internal.refuse_dropped(relation, columns),
            inorder_internal.unchanged_members(k.t, k.members), inorder_internal.make_durable(false);
END
