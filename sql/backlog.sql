-- Backlog: how many transactions a feed has not read, and about how many rows these have, from statistics alone.

CREATE FUNCTION inorder_internal.rows_estimated(relation regclass)
RETURNS float8
LANGUAGE sql STABLE STRICT
-- Without a look at the size of the files, for which the table would be locked.
BEGIN ATOMIC
    SELECT coalesce(sum(greatest(c.reltuples::float8, pg_stat_get_live_tuples(c.oid)::float8, 0::float8)), 0::float8)
    FROM unnest(inorder_internal.tree(relation)) AS m JOIN pg_class AS c ON c.oid = m AND c.relkind = 'r';
END;
COMMENT ON FUNCTION inorder_internal.rows_estimated(regclass) IS
'Internal function. About how many rows a table has, from statistics.';

CREATE TYPE inorder_internal.spread AS (bounds float8[], common float8[], shares float8[]);
COMMENT ON TYPE inorder_internal.spread IS
'Internal type. How rows lay by number when their table was last analyzed: bounds of equal parts of them, but for the '
'rows with common numbers, and which share of all these were.';

CREATE FUNCTION inorder_internal.numbers_of(t inorder_internal.feed_table, keys text)
RETURNS float8[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF t.is_uuid THEN
        RETURN ARRAY(SELECT concat('x', encode(substring(uuid_send(k.key) FROM 1 FOR 6), 'hex'))::bit(48)::bigint
                     FROM unnest(keys::uuid[]) WITH ORDINALITY AS k(key, place) ORDER BY k.place);
    END IF;
    RETURN ARRAY(SELECT k.key::float8 FROM unnest(keys::bigint[]) WITH ORDINALITY AS k(key, place) ORDER BY k.place);
END $$;
COMMENT ON FUNCTION inorder_internal.numbers_of(inorder_internal.feed_table, text) IS
'Internal function. The transaction numbers in an array of keys, which is given as text.';

CREATE FUNCTION inorder_internal.spread_of(t inorder_internal.feed_table)
RETURNS inorder_internal.spread
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s pg_statistic;
    found_spread inorder_internal.spread;
BEGIN
    SELECT k.* INTO s
    FROM pg_attribute AS a JOIN pg_statistic AS k ON k.starelid = a.attrelid AND k.staattnum = a.attnum
    WHERE a.attrelid = t.relation AND a.attname = t.key_column
      AND a.atttypid = CASE WHEN t.is_uuid THEN 'uuid'::regtype ELSE 'bigint'::regtype END
    ORDER BY k.stainherit DESC LIMIT 1;
    -- Kind 1 are the most common values, kind 2 is the histogram, wherever they stand (catalog/pg_statistic.h).
    found_spread.bounds := ARRAY(SELECT n FROM unnest(inorder_internal.numbers_of(t, CASE 2
        WHEN s.stakind1 THEN s.stavalues1::text WHEN s.stakind2 THEN s.stavalues2::text
        WHEN s.stakind3 THEN s.stavalues3::text WHEN s.stakind4 THEN s.stavalues4::text END)) AS n ORDER BY n);
    found_spread.common := inorder_internal.numbers_of(t, CASE 1
        WHEN s.stakind1 THEN s.stavalues1::text WHEN s.stakind2 THEN s.stavalues2::text
        WHEN s.stakind3 THEN s.stavalues3::text WHEN s.stakind4 THEN s.stavalues4::text END);
    found_spread.shares := CASE 1 WHEN s.stakind1 THEN s.stanumbers1 WHEN s.stakind2 THEN s.stanumbers2
                                  WHEN s.stakind3 THEN s.stanumbers3 WHEN s.stakind4 THEN s.stanumbers4 END;
    RETURN found_spread;
END $$;
COMMENT ON FUNCTION inorder_internal.spread_of(inorder_internal.feed_table) IS
'Internal function. How the rows of a table lay by number when it was last analyzed.';

CREATE FUNCTION inorder_internal.share_between(bounds float8[], number float8)
RETURNS float8
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts int := cardinality(bounds) - 1;
    part int;
BEGIN
    IF parts < 1 OR number <= bounds[1] THEN
        RETURN 0;
    ELSIF number > bounds[parts + 1] THEN
        RETURN 1;
    END IF;
    part := least(width_bucket(number, bounds), parts);
    RETURN (part - 1 + (number - bounds[part]) / greatest(bounds[part + 1] - bounds[part], 1)) / parts;
END $$;
COMMENT ON FUNCTION inorder_internal.share_between(float8[], float8) IS
'Internal function. Which share of what lies between bounds of equal parts is lower: straight lines between them.';

CREATE FUNCTION inorder_internal.share_below(
    s inorder_internal.spread, next float8, analyzed float8, number float8
)
RETURNS float8
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last float8 := coalesce((SELECT max(n) FROM unnest(s.bounds || s.common) AS n), 0);
    all_common float8 := coalesce((SELECT sum(k) FROM unnest(s.shares) AS k), 0);
    common float8 := coalesce((SELECT sum(k.share)
                               FROM ROWS FROM (unnest(s.common), unnest(s.shares)) AS k(number, share)
                               WHERE k.number < share_below.number), 0);
BEGIN
    IF number > last THEN
        -- What came since, evenly up to the next number.
        RETURN analyzed + (1 - analyzed) * least(1, (number - last) / greatest(next - last, 1));
    ELSIF cardinality(s.bounds) < 2 THEN
        RETURN analyzed * common / greatest(all_common, common, 1e-9);
    END IF;
    RETURN analyzed * (common + (1 - all_common) * inorder_internal.share_between(s.bounds, number));
END $$;
COMMENT ON FUNCTION inorder_internal.share_below(inorder_internal.spread, float8, float8, float8) IS
'Internal function. About which share of the rows have lower numbers, where a share of them has been analyzed.';

CREATE FUNCTION inorder_internal.rows_with(t inorder_internal.feed_table, numbers int8multirange, next bigint)
RETURNS float8
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s inorder_internal.spread := inorder_internal.spread_of(t);
    total float8 := inorder_internal.rows_estimated(t.relation);
    counted float8 := (SELECT sum(c.reltuples) FROM unnest(inorder_internal.tree(t.relation)) AS m
                       JOIN pg_class AS c ON c.oid = m AND c.relkind = 'r' AND c.reltuples > 0);
    analyzed float8 := CASE WHEN total = 0 OR cardinality(s.bounds || s.common) = 0 THEN 0
                            ELSE least(coalesce(counted, 0) / total, 1) END;
BEGIN
    RETURN (SELECT coalesce(sum(total * (inorder_internal.share_below(s, next, analyzed, upper(r))
                                         - inorder_internal.share_below(s, next, analyzed, lower(r)))), 0)
            FROM unnest(numbers) AS r);
END $$;
COMMENT ON FUNCTION inorder_internal.rows_with(inorder_internal.feed_table, int8multirange, bigint) IS
'Internal function. About how many rows have the numbers of a set, of those below the next one.';

CREATE FUNCTION inorder_internal.backlog(
    t inorder_internal.feed_table, p @extschema@.feed_position, OUT transactions bigint, OUT rows bigint
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    numbers int8multirange;
    estimated float8;
BEGIN
    -- Whatever an owner did to his table or its statistics, the other feeds are to be seen.
    IF inorder_internal.next_transaction(0) > 281474976710655 - t.base THEN
        RETURN;
    END IF;
    numbers := inorder_internal.ended_transactions(t.base) - p.transactions;
    transactions := inorder_internal.total(numbers);
    estimated := inorder_internal.rows_with(t, numbers, inorder_internal.next_transaction(t.base));
    rows := CASE WHEN estimated BETWEEN 0 AND 9e18 THEN round(estimated) END;
EXCEPTION WHEN data_exception THEN
    -- On 18 the owner of a table may give it any statistics.
    rows := NULL;
END $$;
COMMENT ON FUNCTION inorder_internal.backlog(inorder_internal.feed_table, @extschema@.feed_position) IS
'Internal function. Transactions that have ended since a position, of any table, and about how many rows they have.';
