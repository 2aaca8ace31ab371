-- Functions that build queries for the rows of a table by transaction number. The alias of the table is always e.
--
-- The queries run with the caller's privileges. In feed_apply() the queries also run with the caller's search_path.
-- Every name is therefore either a quoted column of the table, or schema-qualified. Literals have a type. Every
-- function and operator is the server's own, except feed_is_table(). query.c refuses any other query.
--
-- When a query is executed, the name of a table may refer to another relation, because the schema of the table can be
-- renamed. Each query string therefore names the row type of the relation. The planner evaluates functions in FROM
-- first, before it examines policies, indexes and partition keys; functions with constant arguments are then removed
-- from the plan.

-- Return a table as the source of a query. The query raises an error if the name refers to another relation.
CREATE FUNCTION inorder_internal.named(relation regclass) RETURNS text
LANGUAGE sql STABLE
-- The argument is a constant null of the row type. The planner drops the CASE, whose condition is false, without
-- examining e.*. The bounds of a partition refer to columns without a qualifier. The column of this function is
-- therefore named cmax, since no column of a table can have that name.
RETURN format('%s AS e CROSS JOIN LATERAL inorder_text.feed_is_table(CASE WHEN false THEN e.* END, '
              '%L::pg_catalog.oid) AS of_table(cmax)'::text, relation, inorder_internal.type_of_rows(relation));

-- Return a condition that precedes the other conditions. The condition is true, or raises an error if the column is not
-- of this type. Without this condition, an outer query could evaluate casts of other roles before feed_is_table().
CREATE FUNCTION inorder_internal.typed(column_name name, type_name name) RETURNS text
LANGUAGE sql STABLE  -- an IMMUTABLE function that calls format(), which is STABLE, would not be inlined
-- Arguments of polymorphic functions are not converted. The planner drops the call, because its second argument is
-- null.
RETURN format('pg_catalog.arrayoverlap(ARRAY[e.%I], NULL::pg_catalog.%I[]) IS NULL AND '::text, column_name, type_name);

-- Return the same condition for each of the given columns, or for all columns if "columns" is null. Columns with types
-- that are not the server's own are left out. Return null if no column remains.
CREATE FUNCTION inorder_internal.typed(relation regclass, columns name[]) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Two kinds of types are left out: int2vector and oidvector, which are arrays and have array types, and types
    -- without an array type, such as pg_node_tree.
    RETURN (SELECT string_agg(CASE WHEN y.typcategory <> 'A' THEN inorder_internal.typed(a.attname, y.typname)
                                   ELSE format('pg_catalog.arrayoverlap(e.%I, NULL::pg_catalog.%I) IS NULL AND ',
                                               a.attname, y.typname) END, '' ORDER BY a.attnum)
            FROM pg_attribute AS a JOIN pg_type AS y ON y.oid = a.atttypid
            WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
              AND (columns IS NULL OR a.attname = ANY (columns))
              AND y.typnamespace = 'pg_catalog'::regnamespace AND (y.typcategory = 'A') = (y.typarray = 0));
END $$;

-- Return the first key of a transaction, as a string without quotes. key_type() returns the type of the key, and
-- bound() returns the literal.
CREATE FUNCTION inorder_internal.key_text(t inorder_internal.feed_table, number bigint) RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN (t).is_uuid THEN @extschema@.uuid_xact_floor(number)::text ELSE number::text END;

CREATE FUNCTION inorder_internal.key_type(t inorder_internal.feed_table) RETURNS name
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN (t).is_uuid THEN 'uuid'::name ELSE 'int8'::name END;

CREATE FUNCTION inorder_internal.bound(t inorder_internal.feed_table, number bigint) RETURNS text
LANGUAGE sql STABLE
RETURN format('%L::pg_catalog.%I'::text, inorder_internal.key_text(t, number), inorder_internal.key_type(t));

-- Return the condition that keys are in a range. One index scan reads this range.
CREATE FUNCTION inorder_internal.between_bounds(t inorder_internal.feed_table, low text, high text)
RETURNS text
LANGUAGE sql STABLE
RETURN format('e.%1$I OPERATOR(pg_catalog.>=) %2$s AND e.%1$I OPERATOR(pg_catalog.<) %3$s', (t).key_column, low, high);

-- Return the condition that numbers are between the lowest and the highest of a set.
CREATE FUNCTION inorder_internal.in_range(t inorder_internal.feed_table, numbers int8multirange) RETURNS text
LANGUAGE sql STABLE
RETURN inorder_internal.between_bounds(t, inorder_internal.bound(t, lower(numbers)),
                                       inorder_internal.bound(t, upper(numbers)));

CREATE FUNCTION inorder_internal.number_text(t inorder_internal.feed_table) RETURNS text
LANGUAGE sql STABLE
-- The number is the first six bytes of a key.
RETURN format(CASE WHEN (t).is_uuid
    THEN '(''x''::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.substring('
         'pg_catalog.uuid_send(e.%I), 1, 6), ''hex''::pg_catalog.text))::pg_catalog."bit"(48)::pg_catalog.int8'
    ELSE 'e.%I' END, (t).key_column);

-- Return the number in a key that a query has returned as a string.
CREATE FUNCTION inorder_internal.number_of(t inorder_internal.feed_table, key text) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN (t).is_uuid THEN ('x'::text || left(replace(key, '-'::text, ''::text), 12))::bit(48)::bigint
            ELSE key::bigint END;

-- Return a list of the given columns for a query, each formatted with a pattern; null if there are no columns.
CREATE FUNCTION inorder_internal.column_list(columns name[], form text DEFAULT 'e.%I') RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    list text;
BEGIN
    -- A query would take ten times as long as the loop.
    FOR i IN 1 .. cardinality(columns) LOOP
        list := concat_ws(', ', list, format(form, columns[i]));
    END LOOP;
    RETURN list;
END $$;

-- Return a key as part of a query, with a cast of each value to the type of its column; null for a null key.
CREATE FUNCTION inorder_internal.literal_list(t inorder_internal.feed_table, key_values text[]) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    literals text;
    amount bigint;
BEGIN
    IF t.is_uuid AND t.order_columns[1] = t.key_column AND cardinality(key_values) = 1 AND key_values[1] IS NOT NULL
    THEN
        RETURN format('%L::pg_catalog.uuid', key_values[1]);
    END IF;
    SELECT string_agg(format('%L::pg_catalog.%I', k.value, y.typname), ', ' ORDER BY k.place), count(*)
    INTO literals, amount
    FROM ROWS FROM (unnest(t.order_columns), unnest(key_values)) WITH ORDINALITY AS k(name, value, place)
    JOIN pg_attribute AS a ON a.attrelid = t.relation AND a.attname = k.name AND NOT a.attisdropped
    JOIN pg_type AS y ON y.oid = a.atttypid AND y.oid = ANY (inorder_internal.order_types())
    WHERE k.value IS NOT NULL;
    IF (amount > 0 AND amount = cardinality(key_values) AND amount = cardinality(t.order_columns)) IS NOT TRUE THEN
        RAISE 'invalid position: key % does not match columns % of %', key_values, t.order_columns,
              t.relation
        USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN literals;
END $$;

CREATE FUNCTION inorder_internal.order_by(columns name[], in_order boolean) RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN in_order AND cardinality(columns) > 0 THEN ' ORDER BY ' || inorder_internal.column_list(columns)
            ELSE '' END;

-- Return the query for the rows of one transaction after the key "above" and up to the key "up_to". If a key is null,
-- the rows are not bounded on that side.
CREATE FUNCTION inorder_internal.slice(
    t inorder_internal.feed_table, source text, number bigint, above text[], up_to text[], columns text,
    in_order boolean
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key text := inorder_internal.column_list(t.order_columns);
BEGIN
    -- A bigint is compared with =. An index on the primary key, or on number and key, then returns the rows in the
    -- order of the key. A read that continues after a key begins at that key. For a range the planner would sort the
    -- whole transaction.
    RETURN format('(SELECT %s FROM %s%s', columns, source, CASE
                  WHEN t.is_uuid THEN inorder_internal.in_range(t, inorder_internal.one_number(number))
                  ELSE format('e.%I OPERATOR(pg_catalog.=) %s', t.key_column, inorder_internal.bound(t, number)) END)
        || CASE WHEN above IS NULL THEN '' ELSE format(' AND (%s) OPERATOR(pg_catalog.>) (%s)', key,
                  inorder_internal.literal_list(t, above)) END
        || CASE WHEN up_to IS NULL THEN '' ELSE format(' AND (%s) OPERATOR(pg_catalog.<=) (%s)', key,
                  inorder_internal.literal_list(t, up_to)) END
        || inorder_internal.order_by(t.order_columns, in_order) || ')';
END $$;

-- Return the condition that numbers are in a set. No index supports this condition. Queries that use an index therefore
-- also have another condition.
CREATE FUNCTION inorder_internal.number_in(t inorder_internal.feed_table, numbers int8multirange) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bounds text[];
BEGIN
    IF inorder_internal.is_range(numbers) THEN
        RETURN format('(%s) IS TRUE', inorder_internal.in_range(t, numbers));
    END IF;
    -- The n-th bucket has the keys from the n-th bound on, and each odd bound begins a range. A multirange would take
    -- twice as long to parse, and four times as long to compare with each row.
    SELECT array_agg(inorder_internal.key_text(t, n.number) ORDER BY n.number)
    INTO bounds FROM unnest(numbers) AS r CROSS JOIN LATERAL (VALUES (lower(r)), (upper(r))) AS n(number);
    RETURN format('pg_catalog.width_bucket(e.%I, %L::pg_catalog.%I[]) OPERATOR(pg_catalog.%%) '
                  '''2''::pg_catalog.int4 OPERATOR(pg_catalog.=) ''1''::pg_catalog.int4',
                  t.key_column, bounds, inorder_internal.key_type(t));
END $$;

-- Return true if a set includes number 0, and the index on the number lacks the rows with this number.
CREATE FUNCTION inorder_internal.has_old(t inorder_internal.feed_table, numbers int8multirange) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN (t).is_partial AND numbers @> 0::bigint;

-- Return the condition that keys are in a range whose bounds are not constants. The planner uses a partial index only
-- if its predicate is in the query.
CREATE FUNCTION inorder_internal.between_keys(t inorder_internal.feed_table, low text, high text) RETURNS text
LANGUAGE sql STABLE
RETURN inorder_internal.between_bounds(t, low, high)
    || CASE WHEN (t).is_partial AND NOT (t).is_uuid
            THEN format(' AND e.%I OPERATOR(pg_catalog.>) ''0''::pg_catalog.int8'::text, (t).key_column)
            ELSE ''::text END;

-- Return the part of a query after the select list, for rows of a set of transactions.
CREATE FUNCTION inorder_internal.from_ranges(
    t inorder_internal.feed_table, source text, numbers int8multirange, ending text
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    low text[];
    high text[];
BEGIN
    -- Rows that existed before feed_prepare() have number 0. A partial index lacks these rows, and a separate part of
    -- the query reads them.
    IF inorder_internal.has_old(t, numbers) THEN
        RETURN format('FROM (SELECT e.* FROM %se.%I OPERATOR(pg_catalog.=) %s UNION ALL SELECT e.* %s) AS e', source,
                      t.key_column, inorder_internal.bound(t, 0),
                      inorder_internal.from_ranges(t, source, inorder_internal.minus(
                          numbers, inorder_internal.one_number(0)), ending));
    END IF;
    SELECT array_agg(inorder_internal.key_text(t, lower(r)) ORDER BY r),
           array_agg(inorder_internal.key_text(t, upper(r)) ORDER BY r)
    INTO low, high FROM unnest(numbers) AS r;
    -- OFFSET 0 makes the planner read one range at a time, in order, each with one index scan. Without OFFSET 0 the
    -- planner might join the set with the table, and read the whole index or the whole table.
    RETURN format('FROM ROWS FROM (pg_catalog.unnest(%1$L::pg_catalog.%2$I[]), '
                  'pg_catalog.unnest(%3$L::pg_catalog.%2$I[])) AS b(low, high) '
                  'CROSS JOIN LATERAL (SELECT e.* FROM %4$s%5$s%6$s OFFSET 0) AS e',
                  low, inorder_internal.key_type(t), high, source, inorder_internal.between_keys(t, 'b.low', 'b.high'),
                  ending);
END $$;

-- Return the source of a query that reads a table with all its partitions, or one share of its rows.
CREATE FUNCTION inorder_internal.whole_table(t inorder_internal.feed_table) RETURNS text
LANGUAGE sql STABLE
RETURN concat(inorder_internal.named((t).relation), ' WHERE '::text,
              inorder_internal.typed((t).key_column, inorder_internal.key_type(t)), (t).share_condition);

-- Return the query for all rows of a set of transactions, sorted by number if requested; null for an empty set.
CREATE FUNCTION inorder_internal.ranges(
    t inorder_internal.feed_table, source text, numbers int8multirange, columns text, in_order boolean
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ending text := inorder_internal.order_by(inorder_internal.known_columns(t), in_order);
BEGIN
    IF isempty(numbers) THEN
        RETURN NULL;
    -- Rows that existed before feed_prepare(), perhaps the whole table, are read using the primary key, even if the
    -- index on numbers contains them.
    ELSIF in_order AND NOT t.is_uuid AND numbers @> 0::bigint OR inorder_internal.has_old(t, numbers) THEN
        RETURN concat_ws(' UNION ALL ', inorder_internal.slice(t, source, 0, NULL, NULL, columns, in_order),
                         inorder_internal.ranges(t, source,
                                                 inorder_internal.minus(numbers, inorder_internal.one_number(0)),
                                                 columns, in_order));
    ELSIF inorder_internal.is_range(numbers) THEN
        RETURN format('(SELECT %s FROM %s%s%s)', columns, source, inorder_internal.in_range(t, numbers), ending);
    END IF;
    RETURN format('(SELECT %s %s)', columns,
                  inorder_internal.from_ranges(t, source, numbers, ending));
END $$;
