-- Functions with which the owner of a table makes the table readable (feed_enable), or reverts this (feed_disable).
--
-- DDL statements run with the privileges of the caller. The result is checked afterwards, by the OIDs of the table and
-- of the guard's function.

-- Lock a table with its partitions. During the wait for the lock, the table may have been dropped, or its owner may
-- have changed.
CREATE FUNCTION inorder_internal.lock_owned(caller oid, relation regclass, mode text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation);
    PERFORM inorder_internal.lock_tree(relation, mode);
    PERFORM inorder_internal.check_owner(caller, relation);
END $$;

-- Drop the triggers of the former guard, and create the triggers of the new guard. If the former guard was intact,
-- store the versions of the new triggers in the positions of feeds of the table.
CREATE FUNCTION inorder_internal.make_guard(caller oid, t inorder_internal.feed_table) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    former inorder_internal.feed_table;
    was_guarded boolean;
    former_members inorder_internal.found_batch.members%TYPE;
    new_members inorder_internal.found_batch.members%TYPE;
BEGIN
    SELECT * INTO former FROM inorder_internal.feed_table AS f WHERE f.relation = t.relation;
    was_guarded := former.relation IS NOT NULL AND inorder_internal.unguarded_member(former) IS NULL;
    -- The table is locked, and no row is written between the two guards. Feeds can therefore accept the new guard in
    -- place of the old guard.
    IF was_guarded THEN
        former_members := inorder_internal.members(former, true);
    END IF;
    PERFORM inorder_internal.run_statements(ARRAY(SELECT s FROM inorder_internal.unguard_statements(t.relation) AS s)
        || ARRAY(SELECT s FROM inorder_internal.guard_statements(t) AS s), caller);
    IF was_guarded THEN
        new_members := inorder_internal.members(t);
        UPDATE inorder_internal.feed_state AS s
        SET position.members = inorder_internal.renewed((s.position).members, former_members, new_members)
        WHERE s.relation = t.relation AND s.written_here;
        UPDATE inorder_internal.worker_batch AS b
        SET batch.members = inorder_internal.renewed((b.batch).members, former_members, new_members)
        WHERE b.relation = t.relation AND b.written_here;
    END IF;
END $$;

-- Return the role that checks the rows of a table before the guard is created. If the caller is a superuser, this role
-- is the owner of the table, because planning a query evaluates functions of the owner in indexes, statistics and
-- partition keys. In the SQL edition, statements run as the caller.
CREATE FUNCTION inorder_internal.looks_as(caller oid, relation regclass) RETURNS oid
LANGUAGE sql STABLE
RETURN (SELECT CASE WHEN r.rolsuper THEN c.relowner ELSE caller END
        FROM pg_class AS c CROSS JOIN pg_roles AS r WHERE c.oid = relation::oid AND r.oid = caller);

-- Raise an error if rows of a table have no number, or a number that this server has not reached.
CREATE FUNCTION inorder_internal.refuse_numbers(t inorder_internal.feed_table, caller oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role oid := inorder_internal.looks_as(caller, t.relation);
BEGIN
    PERFORM inorder_internal.refuse_hidden(role, t.relation),
            inorder_internal.find_fault(t, format('(%s) UNION ALL (%s) LIMIT 1', inorder_internal.beyond_query(t),
                                                  inorder_internal.unnumbered_query(t)), role);
END $$;

-- Enable a table that was not restored. This function waits for writers, because the checks must see all rows that were
-- inserted without the guard.
CREATE FUNCTION inorder_internal.enable_table(
    caller oid, relation regclass, key_column name, counts boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table;
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation);
    PERFORM inorder_internal.require_read_committed(
        'feed_enable', 'Rows that were inserted without the guard since this transaction began would not be checked.');
    -- Dropping triggers takes a stronger lock than creating them.
    PERFORM inorder_internal.lock_owned(caller, relation, CASE
        WHEN EXISTS (SELECT FROM inorder_internal.unguard_statements(relation)) THEN 'ACCESS EXCLUSIVE'
        ELSE 'SHARE ROW EXCLUSIVE' END);
    t := inorder_internal.describe(relation, key_column, counts);
    PERFORM inorder_internal.check_alone(relation), inorder_internal.check_triggers(t),
            inorder_internal.refuse_hidden(caller, relation);
    IF NOT inorder_internal.has_own_guard(relation) THEN
        PERFORM inorder_internal.warn_of_writers(t);
    END IF;
    IF EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.relation = enable_table.relation) THEN
        PERFORM inorder_internal.refuse_another(relation, t.key_column);
        -- With a lower base, new rows would get numbers that feeds have already passed.
        PERFORM inorder_internal.say_ahead(relation, p.highest, p.next)
        FROM (SELECT max(upper(inorder_internal.passed_by(s.position))) - 1 AS highest,
                     inorder_internal.next_transaction(t.base) AS next
              FROM inorder_internal.feed_state AS s
              WHERE s.relation = enable_table.relation AND s.written_here) AS p
        WHERE p.highest >= p.next;
    END IF;
    PERFORM inorder_internal.refuse_numbers(t, caller);
    IF inorder_internal.unguarded_member(t) IS NOT NULL THEN
        PERFORM inorder_internal.make_guard(caller, t);
    END IF;
    PERFORM inorder_internal.run_statements(ARRAY(
        SELECT s FROM inorder_internal.truncate_statements(t) AS s), caller);
    PERFORM inorder_internal.check_local(relation), inorder_internal.keep_table(t),
            -- prove_table() finds faults that would otherwise make each read fail.
            inorder_internal.prove_table(t, caller), inorder_internal.check_owner(caller, relation);
END $$;

-- Enable a table unless it is already enabled. If it is already enabled, writers do not wait, and the caller need not
-- be the owner. "counts" is true if the caller starts an exact count.
CREATE FUNCTION inorder_internal.ensure_enabled(
    caller oid, relation regclass, key_column name, counts boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Another session may be creating the guard. The guard is therefore looked up in a snapshot that is taken after
    -- the wait for this session.
    PERFORM inorder_internal.check_local(relation), inorder_internal.lock_tree(relation, 'ACCESS SHARE');
    IF inorder_internal.is_enabled(relation, key_column) THEN
        RETURN;
    END IF;
    PERFORM inorder_internal.accepted(t) FROM inorder_internal.feed_table AS t
    WHERE t.relation = ensure_enabled.relation;
    PERFORM inorder_internal.enable_table(caller, relation, key_column, counts);
END $$;

CREATE FUNCTION inorder_internal.feed_enable(caller oid, relation regclass, key_column name) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation);
    -- The state of a restored table must not be used as if it had been recorded on this server.
    PERFORM inorder_internal.accepted(t) FROM inorder_internal.feed_table AS t
    WHERE t.relation = feed_enable.relation;
    PERFORM inorder_internal.enable_table(caller, relation, key_column);
END $$;

CREATE FUNCTION inorder_internal.feed_disable(caller oid, relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    users text;
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation);
    PERFORM inorder_internal.require_read_committed(
        'feed_disable', 'Feeds that were created since this transaction began would not be seen.');
    PERFORM inorder_internal.lock_owned(caller, relation, 'ACCESS EXCLUSIVE');
    SELECT string_agg(u.what, ', ' ORDER BY u.what) INTO users
    FROM (SELECT format('feed "%s" of %I', f.name, inorder_internal.shown_owner(f)) FROM inorder_internal.feed AS f
          WHERE f.relation = feed_disable.relation
          UNION SELECT 'its exact count' FROM inorder_internal.counted_table AS k
          WHERE k.relation = feed_disable.relation) AS u(what);
    IF users IS NOT NULL THEN
        RAISE 'table % is still in use by %', relation, users
        USING ERRCODE = 'dependent_objects_still_exist', HINT = 'Call feed_drop() and exact_count_stop() first.';
    END IF;
    DELETE FROM inorder_internal.feed_table AS t WHERE t.relation = feed_disable.relation;
    PERFORM inorder_internal.run_statements(ARRAY(
        SELECT s FROM inorder_internal.unguard_statements(relation) AS s), caller);
END $$;

CREATE FUNCTION inorder_internal.feed_rebase(caller oid, relation regclass, beyond bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table;
    described record;
    base bigint;
BEGIN
    -- The lock waits for all transactions that use the table, because each of them could still write rows with the old
    -- base.
    PERFORM inorder_internal.lock_owned(caller, relation, 'ACCESS EXCLUSIVE');
    SELECT * INTO described FROM inorder_internal.describe_restored(relation, coalesce(beyond, 0));
    t := described.t;
    base := t.base;
    IF described.highest_query IS NOT NULL THEN
        base := inorder_internal.raised_base(t, coalesce(beyond, 0), inorder_internal.find_number(
            t, described.highest_query, true, inorder_internal.looks_as(caller, relation)));
        IF base > t.base THEN
            PERFORM inorder_internal.run_statements(ARRAY[inorder_internal.base_statement(t, base)], caller);
        END IF;
    END IF;
    PERFORM inorder_internal.adopt_roles(relation), inorder_internal.enable_table(caller, relation, t.key_column),
            inorder_internal.accept_feeds(t),  -- stores the versions of the guard that enable_table() created
            inorder_internal.check_owner(caller, relation);
    RETURN base;
END $$;

CREATE FUNCTION inorder_internal.feed_create(
    caller oid, name text, relation regclass, start text, key_column name, order_column name,
    whole_transactions boolean, partition_by name, shares int
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table;
BEGIN
    PERFORM inorder_internal.refuse_whole(whole_transactions, order_column);
    IF shares IS NOT NULL AND partition_by IS NULL THEN
        RAISE 'shares requires partition_by' USING ERRCODE = 'invalid_parameter_value',
              HINT = 'Pass the column by which workers divide the feed as partition_by.';
    ELSIF shares NOT BETWEEN 1 AND 1024 THEN
        RAISE 'shares must be between 1 and 1024, not %', shares USING ERRCODE = 'invalid_parameter_value';
    ELSIF whole_transactions AND partition_by IS NOT NULL THEN
        RAISE 'whole_transactions and partition_by are mutually exclusive' USING ERRCODE = 'feature_not_supported',
              DETAIL = 'The rows of a transaction may have different keys, and rows with different keys may be in '
                       'different batches.';
    END IF;
    PERFORM inorder_internal.check_name(name), inorder_internal.check_reader(caller, relation),
            inorder_internal.ensure_enabled(caller, relation, key_column);
    t := inorder_internal.open_table(caller, relation);
    IF partition_by IS NOT NULL THEN
        PERFORM inorder_internal.prove_column(t, partition_by, true);
        IF inorder_internal.share_kind(inorder_internal.type_of_column(t.relation, partition_by)) IS NULL THEN
            PERFORM inorder_internal.refuse_column(t, t.relation, partition_by, true, 'key type');
        END IF;
    END IF;
    PERFORM inorder_internal.create_feed(
        name, caller, relation, inorder_internal.first_position(t, coalesce(start, 'beginning'), order_column),
        coalesce(whole_transactions, false), partition_by, shares);
END $$;
