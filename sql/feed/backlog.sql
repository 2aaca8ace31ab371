-- Backlog: the number of transactions that a feed has not read, and an estimate of their rows from statistics only.

CREATE FUNCTION inorder_internal.rows_estimated(relation regclass) RETURNS float8
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Does not read the size of the files, since that would lock the table.
    RETURN (SELECT coalesce(sum(greatest(c.reltuples::float8, pg_stat_get_live_tuples(c.oid)::float8, 0)), 0)
            FROM unnest(inorder_internal.tree(relation)) AS m JOIN pg_class AS c ON c.oid = m AND c.relkind = 'r');
END $$;

CREATE FUNCTION inorder_internal.numbers_of(t inorder_internal.feed_table, keys text) RETURNS float8[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF t.is_uuid THEN
        RETURN ARRAY(SELECT concat('x', encode(substring(uuid_send(k.key) FROM 1 FOR 6), 'hex'))::bit(48)::bigint
                     FROM unnest(keys::uuid[]) WITH ORDINALITY AS k(key, place) ORDER BY k.place);
    END IF;
    RETURN ARRAY(SELECT k.key::float8 FROM unnest(keys::bigint[]) WITH ORDINALITY AS k(key, place) ORDER BY k.place);
END $$;

-- Statistics of the keys: histogram bounds, most common values and their shares.
CREATE FUNCTION inorder_internal.statistics_of(t inorder_internal.feed_table, OUT bounds text, OUT common text,
                                               OUT shares float8[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pg_statistic;
BEGIN
    SELECT k.* INTO s
    FROM pg_attribute AS a JOIN pg_statistic AS k ON k.starelid = a.attrelid AND k.staattnum = a.attnum
    WHERE a.attrelid = t.relation AND a.attname = t.key_column
      AND a.atttypid = CASE WHEN t.is_uuid THEN 'uuid'::regtype ELSE 'bigint'::regtype END
      -- ANALYZE stores at most 10,001 values of 16 bytes; from 18 on the owner of a table may store more.
      AND pg_column_size(k.*) < 1000000
    ORDER BY k.stainherit DESC LIMIT 1;
    -- Kind 1 is the list of most common values, kind 2 the histogram, in any slot (catalog/pg_statistic.h).
    bounds := CASE 2 WHEN s.stakind1 THEN s.stavalues1::text WHEN s.stakind2 THEN s.stavalues2::text
                     WHEN s.stakind3 THEN s.stavalues3::text WHEN s.stakind4 THEN s.stavalues4::text END;
    common := CASE 1 WHEN s.stakind1 THEN s.stavalues1::text WHEN s.stakind2 THEN s.stavalues2::text
                     WHEN s.stakind3 THEN s.stavalues3::text WHEN s.stakind4 THEN s.stavalues4::text END;
    shares := CASE 1 WHEN s.stakind1 THEN s.stanumbers1 WHEN s.stakind2 THEN s.stanumbers2
                     WHEN s.stakind3 THEN s.stanumbers3 WHEN s.stakind4 THEN s.stanumbers4 END;
END $$;

-- The estimated share of rows with lower numbers: given are histogram bounds of all rows except those with common
-- numbers; the common numbers, ascending, with the share of all rows that had that or a lower common number; the last
-- number; the next one; and the share of rows that was there at ANALYZE.
CREATE FUNCTION inorder_internal.share_below(
    bounds float8[], common float8[], shares float8[], last float8, next float8, analyzed float8, number float8
) RETURNS float8
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    all_common float8 := coalesce(shares[cardinality(shares)], 0);
    parts int := cardinality(bounds) - 1;
    part int := least(width_bucket(number, bounds), parts);
    lower_common float8;
BEGIN
    IF last IS NULL OR number > last THEN
        -- Rows inserted since, assumed to be uniform up to the next number.
        RETURN analyzed + (1 - analyzed)
            * least(1, (number - coalesce(last, 0)) / greatest(next - coalesce(last, 0), 1));
    END IF;
    -- The lower ones of the common numbers: width_bucket() counts equal ones, too.
    lower_common := CASE WHEN all_common > 0 THEN coalesce(shares[width_bucket(number - 0.5, common)], 0) ELSE 0 END;
    IF parts < 1 THEN
        RETURN analyzed * lower_common / greatest(all_common, 1e-9);
    END IF;
    -- Of the histogram by linear interpolation between its bounds.
    RETURN analyzed * (lower_common + (1 - all_common) * CASE
        WHEN number <= bounds[1] THEN 0 WHEN number > bounds[parts + 1] THEN 1
        ELSE (part - 1 + (number - bounds[part]) / greatest(bounds[part + 1] - bounds[part], 1)) / parts END);
END $$;

-- The estimated number of rows with numbers of a set, below the next number.
CREATE FUNCTION inorder_internal.rows_with(t inorder_internal.feed_table, numbers int8multirange, next bigint)
RETURNS float8
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record := inorder_internal.statistics_of(t);
    -- A hundred bins are sufficient.
    bounds float8[] := ARRAY(
        SELECT n.number
        FROM (SELECT b.number, row_number() OVER (ORDER BY b.number) - 1 AS place, count(*) OVER () AS amount
              FROM unnest(inorder_internal.numbers_of(t, s.bounds)) AS b(number)) AS n
        WHERE n.place % (n.amount / 101 + 1) = 0 OR n.place = n.amount - 1 ORDER BY n.number);
    common float8[];
    shares float8[];
    last float8;
    total float8 := inorder_internal.rows_estimated(t.relation);
    counted float8 := (SELECT sum(c.reltuples) FROM unnest(inorder_internal.tree(t.relation)) AS m
                       JOIN pg_class AS c ON c.oid = m AND c.relkind = 'r' AND c.reltuples > 0);
    analyzed float8;
BEGIN
    SELECT array_agg(c.number ORDER BY c.number), array_agg(c.share ORDER BY c.number) INTO common, shares
    FROM (SELECT k.number, sum(k.share) OVER (ORDER BY k.number) AS share
          FROM ROWS FROM (unnest(inorder_internal.numbers_of(t, s.common)), unnest(s.shares)) AS k(number, share)) AS c;
    last := (SELECT max(n) FROM unnest(bounds || common) AS n);
    analyzed := CASE WHEN total = 0 OR last IS NULL THEN 0 ELSE least(coalesce(counted, 0) / total, 1) END;
    RETURN (SELECT coalesce(sum(total * (
                inorder_internal.share_below(bounds, common, shares, last, next, analyzed, upper(r))
                - inorder_internal.share_below(bounds, common, shares, last, next, analyzed, lower(r)))), 0)
            FROM unnest(numbers) AS r);
END $$;

-- The number of transactions of any table that have ended since a position, an estimate of their rows, and whether it
-- is known that there are none.
CREATE FUNCTION inorder_internal.backlog(
    t inorder_internal.feed_table, p @extschema@.feed_position, OUT transactions bigint, OUT rows bigint,
    OUT caught_up boolean
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    numbers int8multirange;
    estimated float8;
    has_unread boolean;
BEGIN
    -- Whatever an owner did to a table or its statistics, the view must show the other feeds.
    IF inorder_internal.next_transaction(0) > 281474976710655 - t.base THEN
        RETURN;
    END IF;
    numbers := inorder_internal.minus(inorder_internal.ended_everywhere(t.base), p.transactions);
    transactions := inorder_internal.total(numbers);
    IF NOT isempty(numbers) AND p.partial IS NULL AND (p.ordering).frozen IS NULL THEN
        -- An error takes back the locks of the look: this one, or that of a table that cannot be locked or read.
        BEGIN
            has_unread := inorder_internal.has_unread(t, numbers);
            RAISE SQLSTATE 'IOLOK';
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END IF;
    -- A transaction of which rows were read may have no more.
    caught_up := CASE WHEN p.partial IS NOT NULL THEN NULL WHEN (p.ordering).frozen IS NOT NULL THEN false
                      WHEN isempty(numbers) THEN true
                      ELSE NOT has_unread END;
    IF caught_up THEN
        rows := 0;
    -- It must not take long, either.
    ELSIF (SELECT count(*) FROM unnest(numbers)) <= 1000 THEN
        estimated := inorder_internal.rows_with(t, numbers, inorder_internal.next_transaction(t.base));
        rows := CASE WHEN estimated BETWEEN 0 AND 9e18 THEN round(estimated) END;
    END IF;
EXCEPTION WHEN data_exception THEN
    -- From 18 on the owner of a table may set any statistics.
    rows := NULL;
END $$;
