-- The changes of a table are the distinct keys in a batch of its log, joined with the table. A copy that applies all
-- changes equals the table, because the row of a key is read after the change of this row was committed. The proof is
-- in docs/feed-proofs.md; test/model/README.md lists the tests of its premises.

-- Return the call for a HINT that starts logging changes or, if the triggers of a table remain but its log was restored
-- or replaced, the call that starts logging changes again.
CREATE FUNCTION inorder_internal.logging_call(relation regclass) RETURNS text
LANGUAGE sql STABLE
RETURN format(CASE WHEN EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = relation
                                AND g.tgname = 'zz_inorder_changes_insert'::name)
                   THEN 'changes_resync(%L)'::text ELSE 'changes_enable(%L)'::text END, relation);

-- Lock the table whose changes are read, and return it. Raise an error unless all changes are in the log, and the
-- snapshot of the calling statement sees the rows and columns of the table.
CREATE FUNCTION inorder_internal.followed(caller oid, log regclass, row_type oid) RETURNS regclass
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation regclass := (SELECT y.typrelid FROM pg_type AS y WHERE y.oid = row_type);
    present_log regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = relation AND c.relkind IN ('r', 'p')) THEN
        RAISE 'row_type must be null::the_table, not of type %', row_type::regtype USING ERRCODE = 'datatype_mismatch';
    END IF;
    PERFORM inorder_internal.check_reader(caller, relation), inorder_internal.lock_tree(relation, 'ACCESS SHARE'),
            inorder_internal.check_reader(caller, relation);
    present_log := inorder_internal.log_of(relation);
    IF present_log IS DISTINCT FROM log THEN
        RAISE 'table % is not the log of the changes of %', log, relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = coalesce(
                  (SELECT concat('That log has the changes of ', k.relation, ': pass null::', k.relation, '.')
                   FROM inorder_internal.logged_by(log) AS k(relation) WHERE k.relation IS NOT NULL),
                  CASE WHEN present_log IS NULL
                       THEN format('The owner must call %s.', inorder_internal.logging_call(relation))
                       ELSE format('The log is %s. To read it, call %s and %s.', present_log,
                                   inorder_internal.feed_call(log, 'feed_drop'), inorder_internal.feed_call(
                                       log, 'feed_create', ', ' || quote_literal(present_log))) END);
    ELSIF NOT inorder_internal.is_logged(relation) THEN
        RAISE 'changes of table % may be missing from its log', relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Columns, key, triggers or partitions have changed since the last changes_enable() or '
                       'changes_resync().',
              HINT = CASE WHEN inorder_internal.has_other_key(relation, log)
                          THEN inorder_internal.steps_to_another_log(relation, log)
                          ELSE format('The owner must call changes_resync(%L): feeds then read the whole table.',
                                      relation) END;
    END IF;
    PERFORM inorder_internal.refuse_hidden(caller, relation), inorder_internal.seen_members(relation, NULL);
    -- has_column_privilege() examines the current columns, and returns null for a column that does not exist.
    IF (SELECT bool_or(NOT a.attisdropped AND inorder_internal.present_name(relation, a.attnum) <> a.attname)
               OR has_column_privilege(relation, (max(a.attnum) + 1)::smallint, 'SELECT') IS NOT NULL
        FROM pg_attribute AS a WHERE a.attrelid = relation AND a.attnum > 0) THEN
        PERFORM inorder_internal.say_columns_changed(relation, 'The snapshot of the query does not see the changes.');
    END IF;
    RETURN relation;
END $$;

-- Parts of the query for changes. In the query, k is a key of the log, e is a row of the table, and x is a key with its
-- row, if this row exists.
--
--  unnested   the keys
--  is_key     condition: a key has no null
--  texts      key values as text, which distinguish equal keys
--  different  the columns that distinguish keys
--  is_equal   condition: a row has a key
--  is_there   condition: the row exists
--  is_same    condition: the row has exactly this key
--  columns    the columns of a row in the table
--  taken      the columns as x selects them
--  present    the columns as x returns them
--  gone       the columns of a deleted row: its key, and nulls
--  once       DISTINCT ON, which keeps one row of equal keys
CREATE FUNCTION inorder_internal.changes_parts(
    relation regclass, log regclass,
    OUT unnested text, OUT is_key text, OUT texts text, OUT different text, OUT is_equal text, OUT is_there text,
    OUT is_same text, OUT columns text, OUT taken text, OUT present text, OUT gone text, OUT once text
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    of_log name[] := (inorder_internal.log_columns(relation, log)).names[2:];
BEGIN
    -- A marker has nulls instead of arrays, and must still produce a row of the result. Collation "C" is used because
    -- comparing bytes is faster.
    SELECT concat(format('b.%I %s AS is_marker, ', of_log[cardinality(of_log)], inorder_internal.is_marker()),
                  string_agg(format('pg_catalog.unnest(CASE WHEN b.%1$I IS NULL THEN '
                                    'pg_catalog.array_append(b.%1$I, NULL) ELSE b.%1$I END) AS c%2$s',
                                    of_log[k.place], k.place), ', ' ORDER BY k.place)),
           string_agg(format('e.c%s IS NOT NULL', k.place), ' AND '),
           string_agg(format(', pg_catalog.concat(e.c%1$s) COLLATE pg_catalog."C" AS t%1$s', k.place), '')
               FILTER (WHERE NOT k.is_exact),
           string_agg(concat('e.c', k.place,
                             CASE WHEN k.definition LIKE '% COLLATE %' THEN ' COLLATE pg_catalog."C"' END,
                             CASE WHEN NOT k.is_exact THEN format(', t%s', k.place) END), ', ' ORDER BY k.place),
           string_agg(format('e.%I OPERATOR(pg_catalog.=) k.c%s', k.name, k.place), ' AND ' ORDER BY k.place),
           format('e.%I IS NOT NULL', min(k.name) FILTER (WHERE k.place = 1)),
           string_agg(format('pg_catalog.concat(e.%I) COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) k.t%s',
                             k.name, k.place), ' AND ') FILTER (WHERE NOT k.is_exact)
    INTO unnested, is_key, texts, different, is_equal, is_there, is_same
    FROM inorder_internal.changed_key(relation) AS k;
    SELECT string_agg(format('e.%I', a.attname), ', ' ORDER BY a.attnum),
           string_agg(format('e.%I AS e%s', a.attname, a.attnum), ', ' ORDER BY a.attnum),
           string_agg(format('x.e%s', a.attnum), ', ' ORDER BY a.attnum),
           string_agg(format(CASE WHEN k.place IS NULL THEN 'e.%I' ELSE 'x.c%2$s' END, a.attname, k.place), ', '
                      ORDER BY a.attnum),
           CASE WHEN bool_or(NOT k.is_exact)
                THEN format('DISTINCT ON (%s)', string_agg(format(
                    CASE WHEN k.is_exact THEN 'x.e%s' ELSE 'pg_catalog.concat(x.e%s) COLLATE pg_catalog."C"' END,
                    a.attnum), ', ' ORDER BY k.place) FILTER (WHERE k.place IS NOT NULL)) END
    INTO columns, taken, present, gone, once
    FROM pg_attribute AS a LEFT JOIN inorder_internal.changed_key(relation) AS k ON k.name = a.attname
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped;
END $$;

-- Return the version of the rows in a snapshot, computed from the transactions that have ended in the snapshot. A
-- snapshot that sees more transactions has a higher version. The upper bits are the highest number of a transaction
-- that has ended. The next 14 bits decrease with the number of earlier transactions in progress. On a standby this
-- number may be too high, because a standby counts open savepoints as transactions in progress. The lowest bit is 1 for
-- an existing row, and 0 for a deleted key, because a sink may treat these keys as equal.
CREATE FUNCTION inorder_internal.version_of(ended int8multirange, is_there boolean) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (upper(ended) - 1) << 15
           | (16383 - least(upper(ended) - inorder_internal.total(ended), 16383)) << 1
           | is_there::int;
END $$;

-- Build the query for changes from the query for the rows of a batch of the log. The query returns the operation (op),
-- the version of the snapshot, and the columns of the row in the given form. Keys with a null are left out, because no
-- trigger writes such keys. If the batch has a marker, all rows of the table are returned. Otherwise deleted rows come
-- first, because a sink may treat a deleted key and an existing key as equal. Keys are sorted, and each key is looked
-- up in the index, regardless of the number of keys that the planner expects.
CREATE FUNCTION inorder_internal.changes_query(relation regclass, t inorder_internal.feed_table, keys text, form text)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p record := inorder_internal.changes_parts(relation, t.relation);
    source text := inorder_internal.named(relation);
    typed text := inorder_internal.typed(
        relation, ARRAY(SELECT k.name FROM inorder_internal.changed_key(relation) AS k));
    no_row text := format('LEFT JOIN LATERAL (SELECT e.* FROM %s WHERE false) AS e ON true', source);
    ended int8multirange := inorder_internal.ended_transactions(t.base);
    deleted_version text := format('%L::pg_catalog.int8', inorder_internal.version_of(ended, false));
    existing_version text := format('%L::pg_catalog.int8', inorder_internal.version_of(ended, true));
BEGIN
    RETURN concat(
        'WITH k AS MATERIALIZED (SELECT DISTINCT ON (e.is_marker, ', p.different, ') e.*', p.texts, ' FROM (SELECT ',
        p.unnested, ' FROM (', keys, ') AS b) AS e WHERE e.is_marker OR ', p.is_key,
        '), m AS MATERIALIZED (SELECT FROM k WHERE k.is_marker), ',
        'x AS MATERIALIZED (SELECT k.*, ', p.taken, ', ', p.is_there, ' AS is_there, ',
        concat_ws(' AND ', p.is_there, p.is_same), ' AS is_same FROM k LEFT JOIN LATERAL (SELECT e.* FROM ', source,
        ' WHERE ', typed, p.is_equal, ' OFFSET 0) AS e ON true WHERE NOT EXISTS (SELECT FROM m)) ',
        'SELECT ''resync''::pg_catalog.text AS op, ', deleted_version, ' AS version, ', format(form, p.columns),
        ' FROM m ', no_row,
        ' UNION ALL SELECT ''upsert'', ', existing_version, ', ', format(form, p.columns),
        ' FROM ', source, ' WHERE ', typed, 'EXISTS (SELECT FROM m)',
        ' UNION ALL SELECT ''delete'', ', deleted_version, ', ', format(form, p.gone),
        ' FROM x ', no_row, ' WHERE NOT x.is_same',
        ' UNION ALL SELECT ''upsert'', ', existing_version, ', ', format(form, p.present),
        ' FROM (SELECT ', p.once, ' x.* FROM x WHERE x.is_there) AS x');
END $$;

-- Return the changes of an unfinished batch. If "number" is null, the function only checks that no change has bypassed
-- the log.
CREATE FUNCTION inorder_internal.unfinished_changes(
    caller oid, name text, number bigint, owner oid, row_type oid, form text,
    OUT t inorder_internal.feed_table, OUT members @extschema@.feed_member[], OUT query text, OUT relation oid
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed := inorder_internal.find_feed(name, owner, caller);
    r inorder_internal.found_rows;
BEGIN
    IF number IS NULL THEN
        r.t := (inorder_internal.read_state(f.id, f.relation, caller, true)).t;
    ELSE
        r := inorder_internal.unfinished_rows(caller, name, number, owner);
    END IF;
    -- The log is locked now.
    relation := inorder_internal.followed(caller, f.relation, row_type);
    t := r.t;
    members := r.members;
    query := CASE WHEN number IS NOT NULL THEN inorder_internal.changes_query(
                      relation, t, inorder_internal.text_for_rows(t, r.batch, true), form) END;
END $$;

-- Return the next changes of a feed. The feed is locked, and its position moves past the changes.
CREATE FUNCTION inorder_internal.next_changes(
    caller oid, name text, owner oid, max_rows int, row_type oid,
    OUT t inorder_internal.feed_table, OUT members @extschema@.feed_member[], OUT query text, OUT relation oid
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f inorder_internal.feed_view := inorder_internal.open_next_batch(caller, name, owner, max_rows, false, true);
BEGIN
    t := f.t;
    members := (f.next).members;
    relation := inorder_internal.followed(caller, t.relation, row_type);
    IF (f.next).has_rows THEN
        query := inorder_internal.changes_query(
            relation, t, inorder_internal.text_for_rows(t, (f.next).batch, false), '%s');
        PERFORM inorder_internal.move_feed(f, (f.next).batch, (f.next).is_all);
    END IF;
END $$;

-- Return the query for the changes of a batch; the reader keeps the batch, and runs the query. Raise an error if the
-- position includes transactions that this snapshot does not see.
CREATE FUNCTION inorder_internal.query_of_changes(
    caller oid, relation regclass, from_position @extschema@.feed_position, batch @extschema@.feed_batch
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    log regclass := inorder_internal.log_of(relation);
    row_type oid := (SELECT c.reltype FROM pg_class AS c WHERE c.oid = relation);
    keys text;
    missing int8multirange;
BEGIN
    IF log IS NULL THEN
        RAISE 'the changes of % are not logged', coalesce(relation::text, 'null')
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = format('The owner must call %s.', inorder_internal.logging_call(relation));
    END IF;
    -- query_of_batch() locks the log.
    keys := inorder_internal.query_of_batch(caller, log, batch);
    PERFORM inorder_internal.check_position(from_position);
    missing := inorder_internal.minus(
        inorder_internal.plus(inorder_internal.passed_by(from_position),
                              inorder_internal.one_number(from_position.partial)),
        inorder_internal.ended_transactions((inorder_internal.table_of(log)).base));
    -- If the position includes transactions that this snapshot does not see, the copy would get older versions of rows.
    IF NOT isempty(missing) THEN
        PERFORM inorder_internal.say_newer('position', missing, (inorder_internal.table_of(log)).base);
    END IF;
    -- The rows of the table are read in this snapshot, which may be newer than the snapshot in which the batch was
    -- found.
    PERFORM inorder_internal.followed(caller, log, row_type), inorder_internal.make_durable(false);
    RETURN format('SELECT e.* FROM (%s) AS e(%I, %I) WHERE %strue',
                  inorder_internal.changes_query(relation, inorder_internal.table_of(log), keys, '%s'),
                  inorder_internal.name_beside('op', c.names), inorder_internal.name_beside('version', c.names),
                  inorder_internal.typed(relation, NULL))
    FROM (SELECT array_agg(a.attname) AS names FROM pg_attribute AS a WHERE a.attrelid = relation) AS c;
END $$;

CREATE FUNCTION @extschema@.changes_read(
    name text, row_type anyelement, max_rows int DEFAULT NULL, owner regrole DEFAULT NULL,
    OUT op text, OUT version bigint, OUT changed anyelement
) RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.changes_read(text, anyelement, int, regrole) IS
'Return the changes committed since the last read, as operations for a copy of the table, and move the position of '
'the feed.';

CREATE FUNCTION @extschema@.changes_batch_rows(
    name text, number bigint, row_type anyelement, owner regrole DEFAULT NULL,
    OUT op text, OUT version bigint, OUT changed anyelement
) RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.changes_batch_rows(text, bigint, anyelement, regrole) IS
'Return the changes of the unfinished batch with this number, as operations for a copy of the table.';

CREATE FUNCTION inorder_internal.query_of_changes(
    relation regclass, from_position @extschema@.feed_position, batch @extschema@.feed_batch
) RETURNS text
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION @extschema@.reader_changes_query(
    relation regclass, from_position @extschema@.feed_position, batch @extschema@.feed_batch
) RETURNS text
LANGUAGE sql VOLATILE
RETURN inorder_internal.by_index(inorder_internal.query_of_changes(relation, from_position, batch));
COMMENT ON FUNCTION @extschema@.reader_changes_query(regclass, @extschema@.feed_position,
                                                     @extschema@.feed_batch) IS
'Return a query for the changes of a batch kept by the reader; run it in the same transaction.';
