-- Notifications: a trigger that notifies listeners of new rows, once per statement.
--
-- The bodies of the public functions are in enable.sql, the trigger is in notify.c. Like the guard, the statements
-- generated here are executed with the privileges of the caller, who owns the table, and the result is verified.

-- In the public schema, since triggers on users' tables, and dumps of these, refer to it.
CREATE FUNCTION @extschema@.feed_notify_trigger() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION @extschema@.feed_notify_trigger() IS
'Internal function. Trigger that notifies the channel in its argument after each INSERT, unless the transaction has '
'written nothing. Created by feed_notify.';

CREATE FUNCTION inorder_internal.notifier() RETURNS oid
LANGUAGE sql STABLE
RETURN '@extschema@.feed_notify_trigger()'::regprocedure::oid;

-- Whether a table has the trigger that notifies the channel, as feed_notify() creates it.
CREATE FUNCTION inorder_internal.is_notifying(relation regclass, channel text) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
    -- 4: AFTER INSERT FOR EACH STATEMENT. The argument is stored with a byte 0 at its end.
    SELECT EXISTS (
        SELECT FROM pg_trigger AS g
        WHERE g.tgrelid = relation::oid AND g.tgname = 'inorder_notify' AND g.tgfoid = inorder_internal.notifier()
          AND g.tgtype = 4 AND g.tgenabled = 'A' AND g.tgqual IS NULL AND g.tgnargs = 1
          AND g.tgargs = convert_to(channel, getdatabaseencoding()) || decode('00', 'hex'));
END;

-- The statements that create the triggers that notify, where a table or a partition lacks one.
CREATE FUNCTION inorder_internal.notify_statements(relation regclass, channel text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    member regclass;
    is_ours boolean;
BEGIN
    -- Partitions inherit row triggers, but not statement triggers.
    FOREACH member IN ARRAY inorder_internal.tree(relation) LOOP
        CONTINUE WHEN inorder_internal.is_notifying(member, channel);
        is_ours := EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = member AND g.tgname = 'inorder_notify'
                           AND g.tgfoid = inorder_internal.notifier());
        RETURN NEXT format('CREATE %sTRIGGER inorder_notify AFTER INSERT ON %s FOR EACH STATEMENT '
                           'EXECUTE FUNCTION %s(%L)', CASE WHEN is_ours THEN 'OR REPLACE ' ELSE '' END, member,
                           inorder_internal.notifier()::regproc, channel);
        RETURN NEXT format('ALTER TABLE %s ENABLE ALWAYS TRIGGER inorder_notify', member);
    END LOOP;
END $$;

-- The statements that let new partitions notify the channel of their table, if it has one.
CREATE FUNCTION inorder_internal.spread_statements(relation regclass) RETURNS SETOF text
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    SELECT s.statement
    FROM pg_trigger AS g,
         LATERAL convert_from(substring(g.tgargs FROM 1 FOR greatest(length(g.tgargs) - 1, 0)),
                              getdatabaseencoding()) AS c(channel),
         LATERAL inorder_internal.notify_statements(relation, c.channel) AS s(statement)
    WHERE g.tgrelid = relation::oid AND inorder_internal.is_notifying(relation, c.channel)
      AND g.tgname = 'inorder_notify';
END;

CREATE FUNCTION inorder_internal.unnotify_statements(relation regclass) RETURNS SETOF text
LANGUAGE sql STABLE STRICT
BEGIN ATOMIC
    SELECT format('DROP TRIGGER %I ON %s'::text, g.tgname, g.tgrelid::regclass)
    FROM pg_trigger AS g
    WHERE g.tgrelid = ANY (inorder_internal.tree(relation)::oid[]) AND g.tgfoid = inorder_internal.notifier();
END;

CREATE FUNCTION @extschema@.feed_notify(relation regclass, channel text DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_notify(regclass, text) IS
'Let each transaction that inserts into a table notify a channel when it commits, once, without a payload: by a '
'trigger AFTER INSERT FOR EACH STATEMENT on the table and each partition. For low rates: such commits are serialized '
'in all databases of the server, a transaction that has inserted cannot be prepared (two-phase commit), and every '
'role can listen. feed_wait costs writers nothing. The default channel is the name of the table without the schema. '
'Called again, it changes the channel, and adds what partitions lack; feed_enable does the latter, too. Not '
'notified: rows applied by logical replication, and rows of partitions that are attached.
Owner only, for tables that are enabled. Takes SHARE ROW EXCLUSIVE until the end of the transaction. Range: channel 1 '
'to 63 bytes. Errors: invalid_parameter_value, object_not_in_prerequisite_state (not enabled), duplicate_object '
'(another trigger inorder_notify), undefined_table, insufficient_privilege.';

CREATE FUNCTION @extschema@.feed_unnotify(relation regclass) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_unnotify(regclass) IS
'Revert feed_notify: drop its triggers on the table and its partitions, if any. feed_disable does so, too.
Owner only. Takes ACCESS EXCLUSIVE until the end of the transaction. Errors: undefined_table, insufficient_privilege.';
