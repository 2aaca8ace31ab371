-- The guard: the trigger that keeps a table readable (guard.c), and the check that a table has the guard.

-- The trigger function is in the public schema, because triggers on users' tables, and dumps of these tables, refer to
-- it. While session_replication_role is replica, the trigger accepts all rows until the table is enabled or accepted
-- on this server.
CREATE FUNCTION @extschema@.feed_guard() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION @extschema@.feed_guard() IS
'Internal function: refuse changes that feeds and exact counts would miss; called by triggers that feed_enable '
'creates.';

CREATE FUNCTION inorder_internal.guard_function() RETURNS oid
LANGUAGE sql STABLE
RETURN '@extschema@.feed_guard()'::regprocedure::oid;

CREATE FUNCTION inorder_internal.generator() RETURNS oid
LANGUAGE sql STABLE
RETURN '@extschema@.xact_id_generated(bigint)'::regprocedure::oid;

-- The errors of the guard.

CREATE FUNCTION inorder_internal.names_of(relation regclass, OUT schema name, OUT relname name)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid = relation;
END;

CREATE FUNCTION inorder_internal.say_later_trigger(relation regclass, name text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'trigger "%" of table % fires after the guard', name, relation
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'The trigger may give a row the number of a transaction that readers have already read.',
          -- A snapshot that is older than the trigger does not see it.
          HINT = format('Triggers fire in the byte order of their names: ALTER TRIGGER %I ON %s RENAME TO %I.', name,
                        coalesce((
                            WITH RECURSIVE above AS (
                                -- The trigger of a partition is renamed together with the trigger of the parent.
                                SELECT g.tgrelid, g.tgparentid FROM pg_trigger AS g
                                WHERE g.tgrelid = relation AND g.tgname = say_later_trigger.name::name
                                UNION ALL
                                SELECT g.tgrelid, g.tgparentid FROM above AS a JOIN pg_trigger AS g
                                    ON g.oid = a.tgparentid
                            )
                            SELECT a.tgrelid::regclass FROM above AS a WHERE a.tgparentid = 0), relation),
                        concat('a_', left(name, 61 - octet_length(name) + char_length(name))));
END $$;

CREATE FUNCTION inorder_internal.say_restored_table(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'table % was restored from a dump, and accepts no rows yet', relation
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'Feeds of the table may have passed the numbers that new rows would get.',
          HINT = format('Its owner must call feed_rebase(%L).', relation);
END $$;

CREATE FUNCTION inorder_internal.say_foreign(
    relation regclass, key_column name, is_uuid boolean, key text, key_number bigint, number bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record := inorder_internal.names_of(relation);
BEGIN
    RAISE '% % was not made by this transaction', CASE WHEN is_uuid THEN 'key' ELSE 'number' END, coalesce(key, 'NULL')
    USING ERRCODE = 'check_violation',
          DETAIL = format('The feed on "%s" delivers rows by the transaction number in column "%s"; this row has %s, '
                          'and the current transaction is %s.',
                          c.relname, key_column, coalesce(key_number::text, 'none'), number),
          HINT = CASE WHEN current_setting('session_replication_role') = 'replica'
                      THEN 'A table that was enabled here receives no rows of a publisher: call feed_disable() or, '
                           'in a clone of the publisher, see "Logical replication" in the manual.'
                      ELSE format('Leave the column to its default, %s().',
                                  CASE WHEN is_uuid THEN 'uuid_xact_nextval' ELSE 'xact_id' END) END,
          SCHEMA = c.schema, TABLE = c.relname, COLUMN = key_column;
END $$;

-- Return a hint that explains how to follow a table whose rows are deleted or changed; null for a log of changes.
CREATE FUNCTION inorder_internal.way_to_change(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    root regclass := coalesce(pg_partition_root(relation), relation);
BEGIN
    RETURN CASE WHEN NOT EXISTS (SELECT FROM pg_trigger AS g
                                 WHERE g.tgrelid = root AND g.tgname = 'zz_inorder_changes')
                THEN format('To follow a table whose rows are deleted or change, call feed_disable(%L), then '
                            'changes_enable(%L).', root, root) END;
END $$;

CREATE FUNCTION inorder_internal.say_changed(relation regclass, changed name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record := inorder_internal.names_of(relation);
BEGIN
    RAISE 'column "%" of "%" must not change', changed, c.relname
    USING ERRCODE = 'restrict_violation',
          DETAIL = 'A feed or an exact count may have read this row by the previous value.',
          HINT = concat('Other columns may change, unless this column is generated and the table has a BEFORE UPDATE '
                        'trigger: the server then computes the column again. ',
                        inorder_internal.way_to_change(relation)),
          SCHEMA = c.schema, TABLE = c.relname, COLUMN = changed;
END $$;

CREATE FUNCTION inorder_internal.say_insert_only(relation regclass, command text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record := inorder_internal.names_of(relation);
BEGIN
    RAISE 'cannot % "%": it is insert-only', command, c.relname
    USING ERRCODE = 'restrict_violation', DETAIL = 'A feed or an exact count relies on the rows of this table.',
          HINT = concat('To remove rows, detach or drop whole partitions. Moving a row to another partition deletes '
                        'the row from its former partition. ', inorder_internal.way_to_change(relation)),
          SCHEMA = c.schema, TABLE = c.relname;
END $$;
