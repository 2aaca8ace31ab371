-- Exact counts: rows of all transactions in a set, counted once, plus the rows
-- of the others in the caller's own snapshot. That is count(*), at any size.
--
-- The stored number and its set are read under the same snapshot as the rows. If
-- that snapshot sees the fold that wrote them, all of the set had ended before,
-- so each row is counted in one part and not in the other.

CREATE TABLE exact_count_part (
    relid regclass NOT NULL,
    part regclass NOT NULL,
    storage text NOT NULL,
    counted int8multirange NOT NULL,
    rows bigint NOT NULL,
    folded timestamptz NOT NULL,
    PRIMARY KEY (relid, part)
) WITH (fillfactor = 50);
SELECT pg_extension_config_dump('exact_count_part', 'WHERE EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = relid) AND EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = part)');

COMMENT ON TABLE exact_count_part IS 'What exact_count() goes on from, a row for each table or partition.';
COMMENT ON COLUMN exact_count_part.relid IS 'table that exact_count_start() was called for';
COMMENT ON COLUMN exact_count_part.part IS 'that table, or a partition that holds rows';
COMMENT ON COLUMN exact_count_part.storage IS 'which files of which server were counted; when others take their place (restore, TRUNCATE, VACUUM FULL, attached again) the number is void';
COMMENT ON COLUMN exact_count_part.counted IS 'transactions whose rows are in the number';
COMMENT ON COLUMN exact_count_part.rows IS 'the number';

ALTER TABLE exact_count_part OWNER TO @extowner@;
ALTER TABLE exact_count_part ENABLE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON exact_count_part TO PUBLIC;
CREATE POLICY see ON exact_count_part FOR SELECT USING (feed_may_read(relid));
CREATE POLICY change ON exact_count_part USING (feed_may_change(relid))
    WITH CHECK (feed_may_change(relid) AND EXISTS (SELECT FROM pg_class WHERE oid = relid));

CREATE FUNCTION exact_count_storage(relid regclass, part regclass)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    storage text := split_part(@extschema@.server_origin(), '/', 1) || '/' || pg_relation_filenode(part);
BEGIN
    IF part <> relid THEN
        SELECT concat(storage, string_agg('/' || i.xmin::text, '' ORDER BY inhrelid)) INTO storage
        FROM pg_partition_ancestors(part) AS a(relid) JOIN pg_inherits AS i ON inhrelid = a.relid;
    END IF;
    RETURN storage;
END $$;
COMMENT ON FUNCTION exact_count_storage(regclass, regclass) IS 'System identifier, file, and by which transactions a partition was attached: what a stored number is valid for. Not for use by hand.';

CREATE FUNCTION exact_count_leaves("table" regclass)
RETURNS regclass[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = "table") = 'r' THEN
        RETURN ARRAY["table"];
    END IF;
    RETURN ARRAY(SELECT relid FROM pg_partition_tree("table") WHERE isleaf AND level > 0);
END $$;
COMMENT ON FUNCTION exact_count_leaves(regclass) IS 'The tables that hold the rows. Not for use by hand.';

CREATE FUNCTION exact_count_rows(t feed_table, part regclass, numbers int8multirange)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF isempty(numbers) THEN
        RETURN '0';
    ELSIF numbers = int8multirange(range_merge(numbers)) THEN
        RETURN format('(SELECT count(*) FROM %s%s)', @extschema@.feed_part(t.relid, part), @extschema@.feed_between(t, lower(numbers)::text, upper(numbers)::text));
    END IF;
    RETURN format('(SELECT count(*) %s)', @extschema@.feed_from(t, @extschema@.feed_part(t.relid, part), numbers, ''));
END $$;
COMMENT ON FUNCTION exact_count_rows(feed_table, regclass, int8multirange) IS 'The expression that counts rows of a set of transactions. Not for use by hand.';

CREATE FUNCTION exact_count_rest(counted int8multirange)
RETURNS int8multirange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '{[0,281474976710655)}'::int8multirange - counted;
COMMENT ON FUNCTION exact_count_rest(int8multirange) IS 'All numbers but these. Not for use by hand.';

CREATE FUNCTION exact_count_known(t feed_table, leaf regclass)
RETURNS exact_count_part
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    p @extschema@.exact_count_part;
BEGIN
    SELECT * INTO p FROM @extschema@.exact_count_part AS e WHERE e.relid = t.relid AND e.part = leaf;
    -- Numbers beyond those of the server are of the one that it was restored from.
    IF p.storage = @extschema@.exact_count_storage(t.relid, leaf)
       AND (pg_is_in_recovery() OR NOT upper(p.counted) > @extschema@.next_transaction(t.base)) THEN
        RETURN p;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION exact_count_known(feed_table, regclass) IS 'The stored number of a table or partition, null if it has none that is valid. Not for use by hand.';

CREATE FUNCTION exact_count_lost("table" regclass)
RETURNS feed_table
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE 'table % has no exact count, or % may not read it', "table", quote_ident(current_user)
    USING ERRCODE = 'object_not_in_prerequisite_state', HINT = format('Its owner starts one by exact_count_start(%L).', "table");
END $$;
COMMENT ON FUNCTION exact_count_lost(regclass) IS 'The error about a table without a count. Not for use by hand.';

CREATE FUNCTION exact_count("table" regclass)
RETURNS bigint
LANGUAGE plpgsql STABLE STRICT PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_memoize = off
AS $$
DECLARE
    t @extschema@.feed_table;
    leaf regclass;
    known @extschema@.exact_count_part;
    expression text := '0';
    rows bigint;
BEGIN
    SELECT * INTO t FROM @extschema@.feed_table AS f
    WHERE f.relid = "table" AND EXISTS (SELECT FROM @extschema@.exact_count_part AS p WHERE p.relid = "table");
    IF NOT FOUND THEN
        PERFORM @extschema@.exact_count_lost("table");
    END IF;
    PERFORM @extschema@.feed_check_table(t);
    FOREACH leaf IN ARRAY @extschema@.exact_count_leaves("table") LOOP
        known := @extschema@.exact_count_known(t, leaf);
        IF known.part IS NULL THEN
            expression := expression || format(' + (SELECT count(*) FROM %strue)', @extschema@.feed_part(t.relid, leaf));
        ELSE
            expression := expression || format(' + %s + %s', known.rows, @extschema@.exact_count_rows(t, leaf, @extschema@.exact_count_rest(known.counted)));
        END IF;
    END LOOP;
    EXECUTE 'SELECT ' || expression INTO rows;
    RETURN rows;
END $$;
COMMENT ON FUNCTION exact_count(regclass) IS
'Number of rows of a table, equal to count(*) in the snapshot of the calling statement, the transaction''s own rows included. Costs what has come since the last exact_count_fold, whatever the size of the table; a partition (or table) whose files are not those that were counted is counted afresh, until the next fold. On a primary and on a standby.
Errors: object_not_in_prerequisite_state (no count, row security).';

CREATE FUNCTION exact_count_fold("table" regclass)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_memoize = off
AS $$
DECLARE
    t @extschema@.feed_table;
    leaves regclass[];
    leaf regclass;
    known @extschema@.exact_count_part;
    ended int8multirange;
    amount bigint;
    folded bigint := 0;
BEGIN
    PERFORM @extschema@.feed_check_owner("table");
    -- Those who fold take turns; whoever counts or writes does not wait. The statements below see what the last one left.
    PERFORM pg_advisory_xact_lock(hashtext('inorder.exact_count'), "table"::oid::bigint::bit(32)::int);
    SELECT * INTO t FROM @extschema@.feed_table AS f
    WHERE f.relid = "table" AND EXISTS (SELECT FROM @extschema@.exact_count_part AS p WHERE p.relid = "table");
    IF NOT FOUND THEN
        PERFORM @extschema@.exact_count_lost("table");
    END IF;
    PERFORM @extschema@.feed_check_table(t);
    leaves := @extschema@.exact_count_leaves("table");
    DELETE FROM @extschema@.exact_count_part AS p
    WHERE p.relid = "table" AND p.part <> "table" AND p.part <> ALL (leaves);
    FOREACH leaf IN ARRAY leaves LOOP
        known := @extschema@.exact_count_known(t, leaf);
        IF known.part IS NULL THEN
            folded := folded + @extschema@.exact_count_afresh(t, leaf);
            CONTINUE;
        END IF;
        ended := known.counted + @extschema@.ended_transactions(t.base);
        EXECUTE 'SELECT ' || @extschema@.exact_count_rows(t, leaf, ended - known.counted) INTO amount;
        folded := folded + amount;
        -- Without rows the set is only worth writing when it has fewer gaps: each costs a look into the index.
        IF amount > 0 OR (SELECT count(*) FROM unnest(ended)) < (SELECT count(*) FROM unnest(known.counted)) THEN
            UPDATE @extschema@.exact_count_part AS p SET counted = ended, rows = known.rows + amount, folded = clock_timestamp()
            WHERE p.relid = "table" AND p.part = leaf;
        END IF;
    END LOOP;
    RETURN folded;
END $$;
COMMENT ON FUNCTION exact_count_fold(regclass) IS
'Take the rows that came since the last fold into the stored number, so that exact_count has less to look at; returns how many. Costs what has come since. Writers and readers go on meanwhile; a second fold of the same table waits. Call it now and then: by pg_cron, by inorder count --every, or from a feed.
Owner only. Errors: object_not_in_prerequisite_state (no count), serialization_failure in REPEATABLE READ and SERIALIZABLE after another fold.';

CREATE FUNCTION exact_count_afresh(t feed_table, leaf regclass)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ended int8multirange;
    amount bigint;
BEGIN
    -- One statement, one snapshot: all rows but those of transactions that are not in the set.
    EXECUTE format('WITH ended AS MATERIALIZED (SELECT @extschema@.ended_transactions(%s) AS numbers)
                    SELECT numbers, (SELECT count(*) FROM %strue) - (SELECT count(*) FROM unnest(@extschema@.exact_count_rest(numbers)) AS b(numbers)
                        CROSS JOIN LATERAL (SELECT FROM %2$s%s OFFSET 0) AS e) FROM ended',
                   t.base, @extschema@.feed_part(t.relid, leaf), @extschema@.feed_between(t, 'lower(b.numbers)', 'upper(b.numbers)')) INTO ended, amount;
    INSERT INTO @extschema@.exact_count_part AS p VALUES (t.relid, leaf, @extschema@.exact_count_storage(t.relid, leaf), ended, amount, clock_timestamp())
    ON CONFLICT (relid, part) DO UPDATE SET storage = excluded.storage, counted = excluded.counted, rows = excluded.rows, folded = excluded.folded;
    RETURN amount;
END $$;
COMMENT ON FUNCTION exact_count_afresh(feed_table, regclass) IS 'Count all of a table or partition that has no valid number yet. Not for use by hand: exact_count_fold calls it.';

CREATE FUNCTION exact_count_start("table" regclass, "column" name DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM @extschema@.feed_ensure("table", "column");
    -- A partitioned table without partitions has a count, too: its own row says so.
    INSERT INTO @extschema@.exact_count_part VALUES ("table", "table", '', '{}', 0, clock_timestamp()) ON CONFLICT DO NOTHING;
    RETURN @extschema@.exact_count_fold("table");
END $$;
COMMENT ON FUNCTION exact_count_start(regclass, name) IS
'Start an exact count: make the table readable and guarded by feed_enable, and count the rows that are there, once. Returns that number. Costs one count(*); in a table that no feed_enable was called for, writers wait until the transaction ends: call that first, in a transaction of its own.
Owner only. Errors of feed_enable.';

CREATE FUNCTION exact_count_stop("table" regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM @extschema@.feed_check_owner("table");
    DELETE FROM @extschema@.exact_count_part WHERE relid = "table";
    IF NOT FOUND THEN
        PERFORM @extschema@.exact_count_lost("table");
    END IF;
END $$;
COMMENT ON FUNCTION exact_count_stop(regclass) IS
'Forget the exact count of a table. Its guard stays until feed_disable. Owner only. Error object_not_in_prerequisite_state (no count).';
