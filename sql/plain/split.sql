-- The key of the row at a place, from 1, among those of one transaction of a batch; null if there is none.
CREATE FUNCTION inorder_internal.key_at(
    t inorder_internal.feed_table, b @extschema@.feed_batch, number bigint, place bigint
)
RETURNS text[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off
AS $$
DECLARE
    query text := inorder_internal.inside_query(t, b, number, place);
    found_number bigint;
    found_key text[];
BEGIN
    IF query IS NOT NULL THEN
        EXECUTE query INTO found_number, found_key;
    END IF;
    RETURN found_key;
END $$;

-- Transactions of a batch, in its order, and how many of its rows each stands for.
CREATE FUNCTION inorder_internal.distribution(
    t inorder_internal.feed_table, b @extschema@.feed_batch, OUT numbers bigint[], OUT rows bigint[]
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off
AS $$
DECLARE
    whole int8multirange := inorder_internal.whole_transactions(b);
    one bigint;
    amount bigint;
    stride bigint;
BEGIN
    IF NOT isempty(whole) THEN
        EXECUTE inorder_internal.count_query(t, b, whole) INTO amount;
        -- Of 10,000 rows at even distances the numbers are known: so much may the parts differ.
        stride := amount / 10000 + 1;
        EXECUTE format('SELECT array_agg(s.number ORDER BY s.number), array_agg(s.rows ORDER BY s.number) '
                       'FROM (SELECT n AS number, count(*) * %s AS rows FROM unnest((%s)) AS n GROUP BY n) AS s',
                       stride, inorder_internal.numbers_query(t, b, whole, stride)) INTO numbers, rows;
    END IF;
    -- The batch begins and ends with a part of a transaction.
    FOREACH one IN ARRAY ARRAY[b.resumed, nullif(b.cut, b.resumed)] LOOP
        CONTINUE WHEN NOT b.transactions @> one IS TRUE;
        EXECUTE inorder_internal.count_query(t, b, inorder_internal.one(one)) INTO amount;
        IF one = b.resumed THEN
            numbers := one || numbers;
            rows := amount || rows;
        ELSE
            numbers := numbers || one;
            rows := rows || amount;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION inorder_internal.split(t inorder_internal.feed_table, b @extschema@.feed_batch, parts int)
RETURNS SETOF @extschema@.feed_batch
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    numbers bigint[];
    rows bigint[];
    total numeric;
    part @extschema@.feed_batch;
    key text[];
    -- The transaction that a part ends in, the rows of those before it, and the row of it before which the part ends.
    at int := 1;
    before bigint := 0;
    place bigint;
    last int;
    -- What is left begins with this transaction, but for so many rows of it.
    first int := 1;
    taken bigint := 0;
BEGIN
    IF parts > 1 THEN
        SELECT d.numbers, d.rows INTO numbers, rows FROM inorder_internal.distribution(t, b) AS d;
        total := (SELECT sum(r) FROM unnest(rows) AS r);
    END IF;
    FOR i IN 1 .. CASE WHEN total > 0 THEN parts - 1 ELSE 0 END LOOP
        WHILE at < cardinality(rows) AND before + rows[at] <= div(total * i, parts) LOOP
            before := before + rows[at];
            at := at + 1;
        END LOOP;
        place := div(total * i, parts) - before;
        CONTINUE WHEN at = first AND place <= taken;
        -- Inside of a large transaction, otherwise at its end.
        key := CASE WHEN place > 0 AND rows[at] > div(div(total, parts), 8)
                    THEN inorder_internal.key_at(t, b, numbers[at], place - CASE WHEN at = first THEN taken ELSE 0 END) END;
        last := CASE WHEN place = 0 THEN at - 1 ELSE at END;
        CONTINUE WHEN key IS NULL AND (last < first OR last >= cardinality(rows));
        part := inorder_internal.part_to(b, numbers[last], key);
        RETURN NEXT part;
        b := inorder_internal.rest_after(b, part);
        first := CASE WHEN key IS NULL THEN last + 1 ELSE at END;
        taken := CASE WHEN key IS NULL THEN 0 ELSE place END;
    END LOOP;
    RETURN NEXT b;
END $$;

---- reader_batch_between: plpgsql
BEGIN
    RETURN inorder_internal.between_positions(from_position, to_position);
END
---- reader_split: plpgsql reads
DECLARE
    caller oid := inorder_internal.caller();
    t inorder_internal.feed_table;
    members @extschema@.feed_member[];
BEGIN
    PERFORM inorder_internal.check_reader(caller, relation);
    t := inorder_internal.table_of(relation);
    PERFORM inorder_internal.lock_tree(relation, 'ACCESS SHARE');
    IF (parts BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE 'parts must be between 1 and 10000, not %', coalesce(parts::text, 'null')
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    members := inorder_internal.members(t);
    PERFORM inorder_internal.check_kept_batch(batch), inorder_internal.check_readable(t, batch, caller),
            inorder_internal.check_splittable(batch), inorder_internal.allow_bitmaps(t);
    RETURN QUERY SELECT * FROM inorder_internal.split(t, batch, parts);
    PERFORM inorder_internal.check_files(relation), inorder_internal.check_members(t, members);
END
