-- Bodies for the functions of sql/ports/ports.sql that are written in C in the extension. In this edition only queries
-- can use an index. These functions also replace table_proof.c and files.c. They check the table in the catalog, in the
-- snapshot that is used to look for rows, and under locks on the table and all of its partitions. The result is not
-- cached, and each read makes the checks again.

-- The body of guarded(), for statements into which it is inlined.
CREATE FUNCTION inorder_internal.guard_versions(relation oid, is_placed boolean) RETURNS TABLE (versions bigint[])
LANGUAGE sql STABLE
-- The versions are the only trace if a trigger was disabled and enabled again, or if an expression was changed and
-- restored. Only a table whose guard is not inherited has the trigger for TRUNCATE.
BEGIN ATOMIC
    SELECT array_agg(inorder_internal.version(g.xmin, g.ctid, 'pg_trigger'::regclass, is_placed) ORDER BY g.tgname)
           || array_agg(inorder_internal.version(d.xmin, d.ctid, 'pg_attrdef'::regclass, is_placed))
              FILTER (WHERE d.oid IS NOT NULL)
    FROM pg_trigger AS g
    LEFT JOIN pg_attribute AS a ON g.tgname = 'zz_inorder_guard'::name AND a.attrelid = g.tgrelid
                                   AND a.attnum = g.tgattr[0] AND a.attgenerated = 's'::"char"
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE g.tgrelid = relation
      AND (g.tgname = ANY ('{zz_inorder_guard,zz_inorder_update,zz_inorder_delete}'::name[])
           OR g.tgname = 'zz_inorder_truncate'::name
              AND EXISTS (SELECT FROM pg_trigger AS o WHERE o.tgrelid = relation AND o.tgname = 'zz_inorder_guard'::name
                                                        AND o.tgparentid = 0::oid));
END;

---- lock_table: plpgsql VOLATILE keys
BEGIN
    PERFORM inorder_internal.lock_tree(t.relation, 'ACCESS SHARE');
    RETURN t;
END
---- lock_counted: plpgsql VOLATILE keys
DECLARE
    name text;
BEGIN
    -- Before PostgreSQL 17, a query with parallel workers cannot use the subtransactions of lock_tree().
    -- pg_relation_size() finds the table by its OID, and first waits for a session that may rename or drop the table.
    -- The second call waits for a session that has queued behind the first call.
    IF pg_relation_size(t.relation) IS NULL OR pg_relation_size(t.relation) IS NULL THEN
        PERFORM inorder_internal.check_exists(t.relation);
    END IF;
    name := t.relation;
    EXECUTE concat('LOCK TABLE ', name, ' IN ACCESS SHARE MODE');
    IF t.relation::text <> name THEN
        RAISE 'table % was renamed while it was locked', t.relation
        USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
    END IF;
    RETURN t;
END
---- proved_members: plpgsql STABLE keys
BEGIN
    -- The partitions are checked first, because the catalog shows the current values of some properties of partitions,
    -- and not the values in the snapshot. LOCK TABLE checks the privilege again after it has waited, but not after
    -- waiting for partitions.
    IF NOT inorder_internal.is_plain(t.relation) THEN
        PERFORM inorder_internal.seen_members(t.relation, NULL), inorder_internal.check_reader(caller, t.relation);
    END IF;
    PERFORM inorder_internal.prove_table(t, caller);
    RETURN inorder_internal.members(t);
END
---- seen_members: plpgsql STABLE keys
DECLARE
    seen_tables regclass[];
    rewritten regclass;
    not_seen CONSTANT text := 'The snapshot does not see the current files and partitions of the table.';
BEGIN
    -- In the most frequent case, the table has neither partitions nor children, and the snapshot sees the current
    -- file.
    IF EXISTS (SELECT FROM pg_class AS c
               WHERE c.oid = relation AND c.relkind = 'r' AND NOT c.relhassubclass
                 AND c.relfilenode = pg_relation_filenode(c.oid)
                 AND current_setting('transaction_isolation') = 'read committed') THEN
        RETURN members;
    END IF;
    -- The table and its partitions, as the snapshot sees them.
    seen_tables := inorder_internal.tree(relation);
    -- If this transaction has replaced a file since the snapshot was taken, the snapshot still sees the former row of
    -- pg_class.
    rewritten := (SELECT c.oid FROM pg_class AS c
                  WHERE c.oid = ANY (seen_tables) AND c.relkind = 'r'
                    AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(c.oid) LIMIT 1);
    IF rewritten IS NOT NULL THEN
        RAISE 'table % was rewritten after the snapshot of this transaction was taken', rewritten
        USING ERRCODE = 'serialization_failure', DETAIL = not_seen, HINT = 'Try again in a new transaction.';
    ELSIF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = relation AND c.relkind = 'p')
       AND seen_tables <> ARRAY(SELECT p.relid FROM pg_partition_tree(relation) AS p ORDER BY p.relid) THEN
        RAISE 'partitions of % were attached, detached or dropped after the snapshot of this transaction was taken',
              relation
        USING ERRCODE = 'serialization_failure', DETAIL = not_seen, HINT = 'Try again in a new transaction.';
    END IF;
    RETURN members;
END
---- column_is_proved: sql IMMUTABLE
RETURN false;
---- keep_proof_of_column: sql IMMUTABLE
BEGIN ATOMIC
END;
---- as_caller: plpgsql STABLE keys reads SET row_security = off SET enable_sort = on SET enable_incremental_sort = on
DECLARE
    result text[];
BEGIN
    IF walks THEN
        PERFORM set_config('enable_sort', 'off', true);
    END IF;
    EXECUTE query INTO result;
    RETURN result;
END
---- count_as_caller: plpgsql STABLE keys tables SET jit = off SET enable_memoize = off SET enable_seqscan = on
DECLARE
    amount bigint;
BEGIN
    EXECUTE query INTO amount;
    RETURN amount;
END
---- leaves_with: sql IMMUTABLE
RETURN array_fill(true, ARRAY[cardinality(leaves)]);
---- probe: sql IMMUTABLE
RETURN NULL::boolean[];
---- known_count: sql IMMUTABLE
RETURN NULL::inorder_internal.known_count;
---- may_fold: sql IMMUTABLE
RETURN false;
---- keep_count: sql IMMUTABLE
BEGIN ATOMIC
END;
---- end_by_index: sql IMMUTABLE
RETURN NULL::inorder_internal.batch_end;
---- parts_with_rows: sql IMMUTABLE
RETURN NULL::text;
---- partition_bounds: plpgsql STABLE keys
BEGIN
    -- The constraint is used only if the partition keys of all tables above the partition are plain columns of server
    -- types. Otherwise functions of the owner would be executed, or a type would be named in a schema for which the
    -- reader may lack USAGE. The query reads the current keys, as pg_get_partition_constraintdef() does. These keys
    -- cannot change while the table is locked. If the snapshot does not see a key, the constraint is not used.
    IF EXISTS (SELECT FROM pg_partition_ancestors(member) AS p(relid)
               LEFT JOIN pg_partitioned_table AS k ON k.partrelid = p.relid
               LEFT JOIN LATERAL unnest(k.partattrs::smallint[]) AS c(attnum) ON true
               LEFT JOIN pg_attribute AS a ON a.attrelid = k.partrelid AND a.attnum = c.attnum AND c.attnum > 0
               WHERE p.relid <> member AND a.atttypid = ANY (inorder_internal.order_types()) IS NOT TRUE) THEN
        RETURN 'true';
    END IF;
    RETURN coalesce(pg_get_partition_constraintdef(member), 'true');
END
---- unread_rows: plpgsql VOLATILE keys reads SET lock_timeout = 1
BEGIN
    -- Planning a query may execute code of the owner of the table. The query is therefore planned only for a caller
    -- that names the table, or owns it.
    IF (SELECT count(*) FROM unnest(numbers)) <= 1000
       AND (asked OR EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.relation AND c.relowner = inorder_internal.caller()))
       AND NOT row_security_active(t.relation) THEN
        PERFORM inorder_internal.lock_tree(t.relation, 'ACCESS SHARE'),
                inorder_internal.seen_members(t.relation, NULL);
        RETURN inorder_internal.find_number(t, format(
            'SELECT pg_catalog.count(*) FROM (%s LIMIT 10000) AS e',
            inorder_internal.ranges(t, inorder_internal.whole_table(t), numbers, '1::pg_catalog.int4', false)),
            false, inorder_internal.caller());
    END IF;
    RETURN NULL;
END
---- count_by_index: sql IMMUTABLE
RETURN NULL::bigint;
---- pages_read: plpgsql keys SET plan_cache_mode = force_generic_plan
BEGIN
    RETURN (SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid)
                       + (SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(i.indexrelid)), 0) FROM pg_index AS i
                          WHERE i.indrelid = c.oid))
            FROM unnest(inorder_internal.tree(t.relation)::oid[]) AS c(oid));
END
---- unchanged_members: plpgsql STABLE keys SET @pinned@
BEGIN
    IF inorder_internal.members(t) IS DISTINCT FROM remembered THEN
        RAISE 'partitions of % were attached, detached or changed while it was read', t.relation
        USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
    END IF;
    RETURN remembered;
END
---- type_of_rows: plpgsql STABLE keys
BEGIN
    RETURN (SELECT c.reltype FROM pg_class AS c WHERE c.oid = relation);
END
---- type_of_column: plpgsql STABLE keys
BEGIN
    RETURN (SELECT a.atttypid FROM pg_attribute AS a
            WHERE a.attrelid = relation AND a.attname = column_name AND a.attnum > 0 AND NOT a.attisdropped);
END
---- lock_readable: sql STABLE
RETURN inorder_internal.may_read(caller, relation);
---- begin_turn: sql IMMUTABLE
RETURN false;
---- take_turn: plpgsql VOLATILE keys
BEGIN
    PERFORM FROM inorder_internal.feed_state AS s
    WHERE s.feed = take_turn.feed AND s.seq = split_part(version, ' ', 1)::bigint
      AND concat(s.seq, ' ', s.xmin, s.ctid) = version
    FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM inorder_internal.lock_feed(feed);
    RETURN false;
END
---- make_durable: plpgsql VOLATILE keys
DECLARE
    at_once boolean := current_setting('server_version_num')::int >= 170000;
BEGIN
    -- If the transaction gives a batch to a worker, its commit flushes the WAL, because of the trigger keep_commit.
    -- Otherwise the WAL is flushed immediately or, before PostgreSQL 17, by the commit. A transaction needs a second
    -- flush only if the first flush was made immediately, and later snapshots may see more transactions. The setting
    -- inorder.durable is the start time of the transaction that has flushed.
    IF keeps_commit OR pg_is_in_recovery()
       OR current_setting('inorder.durable', true) = now()::text
          AND NOT (at_once AND current_setting('transaction_isolation') = 'read committed') THEN
        RETURN true;
    ELSIF at_once THEN
        EXECUTE 'SELECT pg_catalog.pg_logical_emit_message(false, ''inorder'', ''''::pg_catalog.text, true)';
    ELSE
        PERFORM pg_current_xact_id(), pg_logical_emit_message(false, 'inorder', ''::text),
                inorder_internal.force_commit();
    END IF;
    PERFORM set_config('inorder.durable', now()::text, true);
    RETURN true;
END
---- await_look: plpgsql VOLATILE keys
DECLARE
    -- SQL has no monotonic clock, and clock_timestamp() may be set back. The wait therefore ends when this clock, or
    -- the sum of the sleeps, reaches the timeout.
    ends timestamptz := clock_timestamp() + seconds * '1 second'::interval;
    slept float8 := 0;
BEGIN
    IF NOT is_first THEN
        ends := current_setting('inorder.wait_ends')::timestamptz;
        slept := current_setting('inorder.wait_slept')::float8;
    END IF;
    WHILE NOT is_first AND clock_timestamp() < ends AND slept < seconds LOOP
        PERFORM pg_sleep(0.01);
        slept := slept + 0.01;
        -- As long as no transaction ends, a search has the same result as the previous search.
        EXIT WHEN pg_current_snapshot()::text IS DISTINCT FROM current_setting('inorder.looked', true);
    END LOOP;
    PERFORM set_config('inorder.looked', pg_current_snapshot()::text, false),
            set_config('inorder.wait_ends', ends::text, false), set_config('inorder.wait_slept', slept::text, false);
    RETURN is_first OR clock_timestamp() < ends AND slept < seconds;
END
---- lock_tree: plpgsql VOLATILE keys
DECLARE
    name text;
BEGIN
    -- LOCK TABLE finds the table by name, and the table may be renamed or dropped during the wait for the lock. A
    -- locked table cannot be renamed. Privileges on the table suffice to lock all its partitions.
    LOOP
        name := relation;
        BEGIN
            EXECUTE concat('LOCK TABLE ', name, ' IN ', mode, ' MODE');
            EXIT WHEN relation::text = name;
            RAISE undefined_table;  -- another table had the name, and its lock is released
        EXCEPTION WHEN undefined_table OR invalid_schema_name OR wrong_object_type OR insufficient_privilege
                       OR syntax_error THEN  -- the name of a table that does not exist is a number
            PERFORM inorder_internal.check_exists(relation);
            -- A table that exists is not found only if it had another name for a moment.
            IF relation::text = name AND SQLSTATE <> '42P01' THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END
---- run_statements: plpgsql VOLATILE keys SET client_min_messages = warning
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY statements LOOP
        EXECUTE statement;
    END LOOP;
END
---- expect_origin: sql IMMUTABLE
-- This edition does not read on a standby. A promotion during the call is therefore not possible.
BEGIN ATOMIC
END;
---- passes_empty_batches: sql IMMUTABLE
RETURN false;
