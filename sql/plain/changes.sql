---- changes_batch_rows: plpgsql reads
DECLARE
    k record := inorder_internal.unfinished_changes(
        inorder_internal.caller(), name COLLATE "default", number, owner, pg_typeof(row_type), 'ROW(%s) AS changed');
    r record;
BEGIN
    FOR r IN EXECUTE coalesce(k.query, 'SELECT WHERE false') LOOP
        op := r.op;
        version := r.version;
        changed := r.changed;
        RETURN NEXT;
    END LOOP;
    PERFORM inorder_internal.unchanged_members(k.t, k.members), inorder_internal.make_durable(false)
    WHERE k.query IS NOT NULL;
END
---- changes_read: plpgsql keys
BEGIN
    RAISE 'the SQL edition has no changes_read' USING ERRCODE = 'feature_not_supported',
          HINT = 'Call feed_take_batch(), changes_batch_rows() and feed_finish_batch() in one transaction.';
END
