-- What sql/ports/ports.sql looks up in C. No index shows anything here but to a query.

CREATE FUNCTION inorder_internal.allow_bitmaps(t inorder_internal.feed_table)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- A BRIN index is read in no other way. The functions that read restore the setting when they end.
    IF NOT t.ordered THEN
        PERFORM set_config('enable_bitmapscan', 'on', true);
    END IF;
END $$;

CREATE FUNCTION inorder_internal.locked(t inorder_internal.feed_table, caller oid)
RETURNS inorder_internal.feed_table
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM inorder_internal.lock_tree(t.relation, 'ACCESS SHARE');
    RETURN t;
END $$;

CREATE FUNCTION inorder_internal.proved_members(t inorder_internal.feed_table, caller oid)
RETURNS @extschema@.feed_member[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- First, since not all that is asked of a partition is answered for the snapshot.
    IF NOT inorder_internal.is_plain(t.relation) THEN
        PERFORM inorder_internal.seen_members(t.relation, NULL);
    END IF;
    PERFORM inorder_internal.prove_ground(t, caller);
    RETURN inorder_internal.members(t);
END $$;

CREATE FUNCTION inorder_internal.see_tree(relation regclass)
RETURNS void
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT inorder_internal.seen_members(relation, NULL::@extschema@.feed_member[]);
END;

CREATE FUNCTION inorder_internal.column_is_proved(
    t inorder_internal.feed_table, column_name text, number smallint, divides boolean)
RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN false;

CREATE FUNCTION inorder_internal.keep_proof_of_column(t inorder_internal.feed_table, number smallint, divides boolean)
RETURNS void
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
END;

CREATE FUNCTION inorder_internal.as_caller(t inorder_internal.feed_table, query text, walks boolean, caller oid)
RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_memoize = off
    SET constraint_exclusion = off SET max_parallel_workers_per_gather = 0 SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_sort = on SET enable_incremental_sort = on
    SET datestyle = 'ISO' SET timezone = 'UTC' SET intervalstyle = 'iso_8601'
    SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
    found text[];
BEGIN
    PERFORM inorder_internal.allow_bitmaps(t);
    IF walks THEN
        PERFORM set_config('enable_sort', 'off', true);
    END IF;
    EXECUTE query INTO found;
    RETURN found;
END $$;

CREATE FUNCTION inorder_internal.probe(t inorder_internal.feed_table, numbers int8multirange)
RETURNS boolean[]
LANGUAGE sql IMMUTABLE
RETURN NULL::boolean[];

-- Where no transaction has ended there is no row to prove anything for.
CREATE FUNCTION inorder_internal.is_idle(t inorder_internal.feed_table, p @extschema@.feed_position, caller oid)
RETURNS boolean
LANGUAGE sql STABLE
RETURN isempty(inorder_internal.minus(inorder_internal.ended_transactions((t).base), (p).transactions))
    AND (p).partial IS NULL AND upper((p).transactions) <= inorder_internal.next_transaction((t).base);

CREATE FUNCTION inorder_internal.is_walked(t inorder_internal.feed_table, b @extschema@.feed_batch)
RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN false;

CREATE FUNCTION inorder_internal.walked_cut(t inorder_internal.feed_table, b @extschema@.feed_batch, max_rows int)
RETURNS text[]
LANGUAGE sql IMMUTABLE
RETURN NULL::text[];

-- A setting has what a call found, when (tens of seconds), and a snapshot not newer than the one in which it looked. While no
-- transaction ends it finds that again. Not a count: it may be part of a parallel query, where no setting can be changed.
CREATE FUNCTION inorder_internal.found_empty(asked text, counts boolean)
RETURNS bigint
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    setting text := concat('inorder.empty_', hashtext(asked) & 15);
    call text := concat(' ', (date_part('epoch', clock_timestamp()) / 10)::bigint, ' ', pg_current_snapshot(), ' ', asked);
    known text := current_setting(setting, true);
BEGIN
    IF counts OR pg_current_xact_id_if_assigned() IS NOT NULL OR current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN NULL;
    ELSIF substr(known, strpos(known, ' ')) = call THEN
        RETURN split_part(known, ' ', 1)::bigint;
    END IF;
    PERFORM set_config(setting, '-1' || call, false);
    RETURN -1;
END $$;

CREATE FUNCTION inorder_internal.ranges_with_rows(t inorder_internal.feed_table, numbers int8multirange, most bigint)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE
RETURN NULL::int8multirange;

CREATE FUNCTION inorder_internal.parts_with_rows(t inorder_internal.feed_table, numbers int8multirange)
RETURNS text
LANGUAGE sql IMMUTABLE
RETURN NULL::text;

CREATE FUNCTION inorder_internal.large_first(t inorder_internal.feed_table, numbers int8multirange, amount bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN NULL::bigint;

CREATE FUNCTION inorder_internal.count_by_index(t inorder_internal.feed_table, numbers int8multirange, most bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN NULL::bigint;

CREATE FUNCTION inorder_internal.type_of_rows(relation regclass)
RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT c.reltype FROM pg_class AS c WHERE c.oid = relation);
END $$;

CREATE FUNCTION inorder_internal.type_of_column(relation regclass, column_name name)
RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT a.atttypid FROM pg_attribute AS a
            WHERE a.attrelid = relation AND a.attname = column_name AND a.attnum > 0 AND NOT a.attisdropped);
END $$;

CREATE FUNCTION inorder_internal.lock_readable(relation oid, caller oid)
RETURNS boolean
LANGUAGE sql STABLE
RETURN inorder_internal.may_read(caller, relation);

CREATE FUNCTION inorder_internal.run_statements(statements text[], caller oid)
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY statements LOOP
        EXECUTE statement;
    END LOOP;
END $$;

-- Nobody reads by this edition on a standby, which may be promoted meanwhile.
CREATE FUNCTION inorder_internal.expect_origin(origin text)
RETURNS void
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
END;

CREATE FUNCTION inorder_internal.passes_empty_batches()
RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN false;

CREATE FUNCTION inorder_internal.count_as_caller(
    t inorder_internal.feed_table, query text, parallel boolean, caller oid
)
RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_memoize = off
    SET constraint_exclusion = off SET enable_seqscan = on
AS $$
DECLARE
    amount bigint;
BEGIN
    EXECUTE query INTO amount;
    RETURN amount;
END $$;

CREATE FUNCTION inorder_internal.leaves_with(t inorder_internal.feed_table, leaves oid[], numbers int8multirange[])
RETURNS boolean[]
LANGUAGE sql IMMUTABLE
RETURN array_fill(true, ARRAY[cardinality(leaves)]);

CREATE FUNCTION inorder_internal.sample(
    t inorder_internal.feed_table, transactions int8multirange, OUT numbers bigint[], OUT rows bigint[]
)
LANGUAGE sql IMMUTABLE
RETURN ROW(NULL::bigint[], NULL::bigint[]);

CREATE FUNCTION inorder_internal.await_look(since timestamptz, ends timestamptz, is_first boolean)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    WHILE NOT is_first AND clock_timestamp() < ends LOOP
        PERFORM pg_sleep(least(0.01, extract(epoch FROM ends - clock_timestamp())));
        -- While no transaction ends, a look finds what the last one has found.
        EXIT WHEN pg_current_snapshot()::text IS DISTINCT FROM current_setting('inorder.looked', true);
    END LOOP;
    PERFORM set_config('inorder.looked', pg_current_snapshot()::text, false);
    RETURN is_first OR clock_timestamp() < ends;
END $$;

-- feed_is_table() notices it, while the query runs.
CREATE FUNCTION inorder_internal.check_names(relation regclass)
RETURNS void
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
END;

-- A query would wait for locks and plan over the table, for roles that may not read it: so it is not known.
CREATE FUNCTION inorder_internal.has_unread(t inorder_internal.feed_table, numbers int8multirange)
RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN NULL::boolean;
