-- Exact counts. A count is the sum of two numbers. The first number counts the rows of a set of transactions, and is
-- stored. The second number counts the rows of all other transactions that the snapshot of the caller sees. The sum
-- equals count(*). A fold adds transactions to the set, and the number of their rows to the stored number.
--
-- The stored number, its set and the rows are read in the same snapshot. All transactions of the set had ended before
-- the fold that stored the set. A snapshot that sees the fold therefore sees all rows of these transactions, and each
-- row is in exactly one of the two numbers.

-- Return a string that identifies the file for which a stored count is valid. The string consists of the system
-- identifier, the file, the versions of the attachments (for a partition), and the versions of the guard. "is_placed"
-- is true if the result is compared with a stored string.
CREATE FUNCTION inorder_internal.storage(relation regclass, part regclass, is_placed boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    attached bigint[];
BEGIN
    IF part <> relation THEN
        WITH RECURSIVE up AS (
            SELECT i.inhrelid, i.inhparent, i.xmin, i.ctid FROM pg_inherits AS i WHERE i.inhrelid = part
            UNION ALL
            -- OFFSET 0 makes the planner use the index for each parent, as in tree(). A join would read all of
            -- pg_inherits for each partition.
            SELECT i.* FROM up AS u CROSS JOIN LATERAL (
                SELECT p.inhrelid, p.inhparent, p.xmin, p.ctid FROM pg_inherits AS p
                WHERE p.inhrelid = u.inhparent OFFSET 0
            ) AS i
        )
        SELECT array_agg(inorder_internal.version(u.xmin, u.ctid, 'pg_inherits', is_placed) ORDER BY u.inhrelid)
        INTO attached FROM up AS u;
    END IF;
    RETURN concat(inorder_internal.server_system(), '/', pg_relation_filenode(part), ' ',
                  array_to_string(attached || inorder_internal.guarded(part, is_placed), '/'));
END $$;

-- Return the transaction numbers that are not in a set.
CREATE FUNCTION inorder_internal.others(counted int8multirange) RETURNS int8multirange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '{[0,281474976710655)}'::int8multirange - counted;

-- Return the expression that counts the rows of some transactions in a table or partition.
CREATE FUNCTION inorder_internal.count_of(
    t inorder_internal.feed_table, part regclass, numbers int8multirange, caller oid
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    source text := inorder_internal.part_source(t.relation, part, caller);
BEGIN
    IF isempty(numbers) THEN
        RETURN '''0''::pg_catalog.int8';
    ELSIF inorder_internal.is_range(numbers) THEN
        RETURN format('(SELECT pg_catalog.count(*) FROM %s%s)', source, inorder_internal.in_range(t, numbers));
    END IF;
    RETURN format('(SELECT pg_catalog.count(*) %s)', inorder_internal.from_ranges(t, source, numbers, ''));
END $$;

-- Return the stored count of a table or partition; null if there is no valid count.
CREATE FUNCTION inorder_internal.known_part(t inorder_internal.feed_table, leaf regclass)
RETURNS inorder_internal.count_part
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p inorder_internal.count_part;
    present text := inorder_internal.storage(t.relation, leaf, true);
BEGIN
    SELECT * INTO p FROM inorder_internal.count_part AS e WHERE e.relation = t.relation AND e.part = leaf;
    -- A set with numbers that this server has not reached comes from the server that was dumped. Until feed_rebase()
    -- has accepted a restored table, a subscription may add and remove rows of transactions that were counted.
    IF t.written_here AND split_part(p.storage, ' ', 1) = split_part(present, ' ', 1)
       AND inorder_internal.are_versions(string_to_array(split_part(p.storage, ' ', 2), '/'),
                                         string_to_array(split_part(present, ' ', 2), '/')::bigint[])
       AND (pg_is_in_recovery() OR NOT upper(p.counted) > inorder_internal.next_transaction(t.base)) THEN
        RETURN p;
    END IF;
    RETURN NULL;
END $$;

-- Return the description of a counted table. Raise an error unless the caller may read the table, and the table has an
-- exact count.
CREATE FUNCTION inorder_internal.counted(relation regclass, caller oid) RETURNS inorder_internal.feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table;
BEGIN
    IF inorder_internal.lock_readable(relation, caller) IS NOT TRUE THEN
        PERFORM inorder_internal.check_reader(caller, relation);
    END IF;
    -- A count remains correct after a restore, because the set divides the rows into two parts, regardless of the
    -- server that assigned their numbers.
    SELECT e.* INTO t
    FROM inorder_internal.counted_table AS c JOIN inorder_internal.feed_table AS e ON e.relation = c.relation
    WHERE c.relation = counted.relation;
    IF t.relation IS NULL THEN
        RAISE 'table % has no exact count', relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = CASE WHEN EXISTS (SELECT FROM inorder_internal.key_columns(relation))
                          THEN format('The owner must call exact_count_start(%L).', relation)
                          ELSE inorder_internal.way_to_read(relation, true) END;
    END IF;
    RETURN t;
END $$;

-- Return the tables that contain the rows, and the sum of their stored counts. For each of these tables, also return
-- the transactions that are not counted, or null if there is no valid stored count.
CREATE FUNCTION inorder_internal.known_parts(
    t inorder_internal.feed_table, OUT leaves oid[], OUT others int8multirange[], OUT stored bigint
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known inorder_internal.count_part;
BEGIN
    leaves := inorder_internal.leaves(t.relation);
    others := '{}';
    stored := 0;
    FOR i IN 1 .. cardinality(leaves) LOOP
        known := inorder_internal.known_part(t, leaves[i]);
        others[i] := CASE WHEN known.part IS NOT NULL THEN inorder_internal.others(known.counted) END;
        stored := stored + coalesce(known.rows, 0);
    END LOOP;
END $$;

-- Return the query that counts rows in some of the tables that known_parts() returns. The query adds the number of rows
-- of all other transactions to the stored count.
CREATE FUNCTION inorder_internal.count_query(
    t inorder_internal.feed_table, caller oid, leaves oid[], others int8multirange[], stored bigint, wanted boolean[]
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sums text[];
BEGIN
    FOR i IN 1 .. cardinality(leaves) LOOP
        IF NOT wanted[i] THEN
            CONTINUE;
        ELSIF others[i] IS NULL THEN
            sums := sums || format('(SELECT pg_catalog.count(*) FROM %strue)',
                                   inorder_internal.part_source(t.relation, leaves[i], caller));
        ELSE
            sums := sums || inorder_internal.count_of(t, leaves[i], others[i], caller);
        END IF;
    END LOOP;
    RETURN format('SELECT %L::pg_catalog.int8', stored)
        || coalesce(' OPERATOR(pg_catalog.+) ' || array_to_string(sums, ' OPERATOR(pg_catalog.+) '), '');
END $$;

-- A fold of one table or partition.
--
--  storage        the file and the server for which the number is valid, in the snapshot that counts
--  counted, rows  the set of transactions, and the number of their rows, after the fold
--  more           the number of added rows
--  fewer_gaps     true if the new set has fewer gaps, and is stored even if no row is added
CREATE TYPE inorder_internal.fold_step AS (
    part regclass, storage text, counted int8multirange, rows bigint, more bigint, fewer_gaps boolean
);

-- Return the steps of a fold of a locked table. All steps use one snapshot, which sees every transaction that has
-- ended.
CREATE FUNCTION inorder_internal.fold_steps(t inorder_internal.feed_table, caller oid)
RETURNS SETOF inorder_internal.fold_step
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    members inorder_internal.found_batch.members%TYPE := inorder_internal.seen_members(
        t.relation, inorder_internal.proved_members(t, caller));
    ended int8multirange := inorder_internal.ended_transactions(t.base);
    leaf regclass;
    known inorder_internal.count_part;
    step inorder_internal.fold_step;
BEGIN
    -- Until feed_rebase() has accepted the table, a subscription may add and remove rows of transactions that were
    -- counted.
    PERFORM inorder_internal.say_unaccepted(t.relation) WHERE t.written_here IS NOT TRUE;
    FOREACH leaf IN ARRAY inorder_internal.leaves(t.relation) LOOP
        known := inorder_internal.known_part(t, leaf);
        step.part := leaf;
        step.storage := inorder_internal.storage(t.relation, leaf);
        step.counted := ended + coalesce(known.counted, '{}');
        step.more := inorder_internal.count_as_caller(t, CASE WHEN known.part IS NULL THEN format(
                'SELECT (SELECT pg_catalog.count(*) FROM %strue) OPERATOR(pg_catalog.-) %s',
                inorder_internal.part_source(t.relation, leaf, caller),
                inorder_internal.count_of(t, leaf, inorder_internal.others(ended), caller))
            ELSE 'SELECT ' || inorder_internal.count_of(t, leaf, ended - known.counted, caller) END, true, caller);
        step.rows := coalesce(known.rows, 0) + step.more;
        -- Each gap costs an index probe.
        step.fewer_gaps := known.part IS NULL OR (SELECT count(*) FROM unnest(step.counted))
                                                 < (SELECT count(*) FROM unnest(known.counted));
        RETURN NEXT step;
    END LOOP;
    PERFORM inorder_internal.unchanged_members(t, inorder_internal.seen_members(t.relation, members));
END $$;

-- Store the count of a table or partition, unless this transaction may have created the file that was counted.
-- TRUNCATE in the same transaction would empty such a file instead of replacing it.
CREATE FUNCTION inorder_internal.keep_part(table_relation regclass, step inorder_internal.fold_step) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A session that replaces a file updates the row of the table in pg_class, and holds an ACCESS EXCLUSIVE lock
    -- until the transaction ends.
    IF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = step.part AND age(c.xmin) <= 0)
       AND EXISTS (SELECT FROM pg_locks AS l
                   WHERE l.relation = step.part AND l.mode = 'AccessExclusiveLock' AND l.pid = pg_backend_pid()) THEN
        RETURN;
    END IF;
    INSERT INTO inorder_internal.count_part AS p
    VALUES (table_relation, step.part, step.storage, step.counted, step.rows, clock_timestamp())
    ON CONFLICT (relation, part) DO UPDATE
    SET storage = excluded.storage, counted = excluded.counted, rows = excluded.rows, folded = excluded.folded;
END $$;

-- Fold a table, unless another session is folding it.
CREATE FUNCTION inorder_internal.fold_soon(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM inorder_internal.counted_table AS k WHERE k.relation = fold_soon.relation
    FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        PERFORM inorder_internal.fold_table((SELECT c.relowner FROM pg_class AS c WHERE c.oid = relation), relation);
    END IF;
EXCEPTION WHEN OTHERS THEN
    NULL;  -- exact_count_fold() reports the error to the owner
END $$;

-- Add the rows of the transactions in known.others to a count that this session keeps.
CREATE FUNCTION inorder_internal.count_others(
    t inorder_internal.feed_table, known inorder_internal.known_count, caller oid
) RETURNS inorder_internal.known_count
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT isempty(known.others) THEN
        known.amount := coalesce(known.amount + known.more,
                                 inorder_internal.count_as_caller(t, inorder_internal.count_query(
                                     t, caller, ARRAY[t.relation::oid], ARRAY[known.others], known.amount, '{true}'),
                                                                  false, caller));
        known.counted.transactions := (known.counted).transactions + inorder_internal.ended_transactions(t.base);
        PERFORM inorder_internal.keep_count(t.relation, t.relation, known.counted, known.amount, known.folded);
    END IF;
    RETURN known;
END $$;

-- Count a table: the stored count plus the number of rows that are not folded.
CREATE FUNCTION inorder_internal.count_unfolded(t inorder_internal.feed_table, caller oid)
RETURNS inorder_internal.known_count
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known inorder_internal.known_count;
    k record;
    has_others boolean[];
BEGIN
    t := inorder_internal.lock_counted(t, caller);
    known.counted.members := inorder_internal.seen_members(t.relation, inorder_internal.proved_members(t, caller));
    k := inorder_internal.known_parts(t);
    has_others := inorder_internal.leaves_with(t, k.leaves, k.others);
    known.folded := k.stored;
    known.amount := CASE WHEN true = ANY (has_others)
                         THEN inorder_internal.count_as_caller(t, inorder_internal.count_query(
                             t, caller, k.leaves, k.others, k.stored, has_others), false, caller)
                         ELSE k.stored END;
    known.counted.members := inorder_internal.unchanged_members(
        t, inorder_internal.seen_members(t.relation, (known.counted).members));
    IF cardinality(k.leaves) = 1 THEN
        known.counted.transactions :=
            inorder_internal.others(k.others[1]) + inorder_internal.ended_transactions(t.base);
        PERFORM inorder_internal.keep_count(t.relation, k.leaves[1], known.counted, known.amount, known.folded);
    END IF;
    RETURN known;
END $$;

-- This function is STABLE, because it reads everything in the snapshot of the calling statement, which may be older
-- than the locks.
CREATE FUNCTION inorder_internal.exact_count(caller oid, relation regclass) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table := inorder_internal.counted(relation, caller);
    known inorder_internal.known_count := inorder_internal.known_count(t, caller);
    is_known boolean := known.amount IS NOT NULL;
BEGIN
    -- If folds have stored more rows than this session has counted, the session starts again from the stored count.
    -- Otherwise the session would count the rows of these folds a second time.
    IF is_known AND known.more IS NULL THEN
        is_known := (SELECT coalesce(sum(p.rows), 0) <= known.amount FROM inorder_internal.count_part AS p
                     WHERE p.relation = t.relation);
    END IF;
    IF is_known THEN
        known := inorder_internal.count_others(t, known, caller);
    ELSE
        known := inorder_internal.count_unfolded(t, caller);
    END IF;
    IF known.amount - known.folded > 10000 AND inorder_internal.may_fold(relation, known.amount) THEN
        PERFORM inorder_internal.fold_soon(relation);
    END IF;
    RETURN known.amount;
END $$;

-- Fold a table whose row in counted_table this transaction has locked.
CREATE FUNCTION inorder_internal.fold_table(caller oid, relation regclass) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t inorder_internal.feed_table;
    folded bigint := 0;
    step inorder_internal.fold_step;
BEGIN
    PERFORM inorder_internal.lock_readable(relation, caller);
    PERFORM inorder_internal.check_owner(caller, relation);
    DELETE FROM inorder_internal.count_part AS p
    WHERE p.relation = fold_table.relation
      -- The subquery makes the planner look up the leaves once.
      AND NOT EXISTS (SELECT FROM unnest(inorder_internal.leaves(fold_table.relation)) AS l WHERE l = p.part);
    t := inorder_internal.lock_table(inorder_internal.counted(relation, caller), caller);
    FOR step IN SELECT * FROM inorder_internal.fold_steps(t, caller) LOOP
        folded := folded + step.more;
        IF step.more > 0 OR step.fewer_gaps THEN
            PERFORM inorder_internal.keep_part(relation, step);
        END IF;
    END LOOP;
    RETURN folded;
END $$;

CREATE FUNCTION inorder_internal.exact_count_fold(caller oid, relation regclass) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation);
    IF inorder_internal.fold_groups(caller, relation) > 0
       AND NOT EXISTS (SELECT FROM inorder_internal.counted_table AS k
                       WHERE k.relation = exact_count_fold.relation) THEN
        RETURN 0;
    END IF;
    -- Sessions that fold take turns; sessions that count or write do not wait.
    PERFORM FROM inorder_internal.counted_table AS k WHERE k.relation = exact_count_fold.relation FOR NO KEY UPDATE;
    RETURN inorder_internal.fold_table(caller, relation);
END $$;

CREATE FUNCTION inorder_internal.exact_count_start(caller oid, relation regclass, key_column name)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation),
            inorder_internal.ensure_enabled(caller, relation, key_column, true);
    INSERT INTO inorder_internal.counted_table VALUES (relation) ON CONFLICT DO NOTHING;
    RETURN inorder_internal.exact_count_fold(caller, relation);
END $$;

CREATE FUNCTION inorder_internal.exact_count_stop(caller oid, relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.check_owner(caller, relation);
    IF NOT EXISTS (SELECT FROM inorder_internal.counted_table AS k WHERE k.relation = exact_count_stop.relation) THEN
        PERFORM inorder_internal.counted(relation, caller);
    END IF;
    DELETE FROM inorder_internal.count_part AS p WHERE p.relation = exact_count_stop.relation;
    DELETE FROM inorder_internal.counted_table AS k WHERE k.relation = exact_count_stop.relation;
    PERFORM inorder_internal.check_owner(caller, relation);
END $$;

CREATE FUNCTION @extschema@.exact_count(relation regclass) RETURNS bigint
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.exact_count(regclass) IS
'Return the number of rows of a table, equal to count(*) in the snapshot of the calling statement.';

CREATE FUNCTION @extschema@.exact_count_fold(relation regclass) RETURNS bigint
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.exact_count_fold(regclass) IS
'Add the number of rows since the last fold to the stored number, so that exact_count reads fewer rows; return the '
'number that was added.';

CREATE FUNCTION @extschema@.exact_count_start(relation regclass, key_column name DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.exact_count_start(regclass, name) IS
'Start an exact count: make the table readable, count the existing rows once, and return their number.';

CREATE FUNCTION @extschema@.exact_count_stop(relation regclass) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.exact_count_stop(regclass) IS
'Stop the exact count of a table and delete its stored number.';
