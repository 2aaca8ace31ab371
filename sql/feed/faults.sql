-- Faults of a table, a position or a batch that would make a feed lose rows, or deliver rows twice. Before rows are
-- read, queries look for these faults with the privileges of the reader (find_fault in next.sql), and complain() raises
-- the error.

CREATE FUNCTION inorder_internal.complain(t inorder_internal.feed_table, fault text, member oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    seek text := format('call %s or, if the reader keeps the position, reader_seek(%L, position)',
                        inorder_internal.seek_call(t.relation), t.relation);
BEGIN
    CASE fault
        WHEN 'beyond' THEN
            RAISE 'table % has transaction numbers that this server has not reached', t.relation
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The next number is %s. Rows that were restored from another server may have such '
                                  'numbers.', inorder_internal.next_transaction(0)),
                  HINT = format('If the rows were restored, call feed_rebase(%1$L): new numbers are then above those '
                                'in the table. Keys of another kind have no transaction number: feed_prepare(%1$L, '
                                '''xact'') returns statements that add a column with this number.', t.relation);
        WHEN 'unnumbered' THEN
            RAISE 'table % has rows without a transaction number in column %', t.relation, quote_ident(t.key_column)
            USING ERRCODE = 'check_violation', DETAIL = 'These rows would be in no batch, and feeds would miss them.',
                  HINT = format('Give these rows a number while they are not guarded (before feed_enable, or in a '
                                'partition before it is attached): UPDATE %s SET %I = %s.',
                                t.relation, t.key_column, CASE WHEN t.is_uuid THEN 'DEFAULT' ELSE '0' END);
        WHEN 'passed' THEN
            RAISE 'partition % has rows of transactions that the feed has already read', member::regclass
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The partition was attached, or detached and attached again, since the last read.',
                  HINT = format('If the feed has delivered the rows of the partition, or may skip them, %s. Otherwise '
                                'detach the partition, then give its rows new numbers (UPDATE ... SET column = '
                                'DEFAULT) and attach it again in one transaction.', seek);
        WHEN 'unguarded' THEN
            RAISE 'the guard of table % was disabled or replaced since the last read', member::regclass
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'A trigger of the guard, or the expression of a generated number, was changed. Rows may '
                           'have been written without the guard, or with numbers of transactions that were read.',
                  HINT = format('If no such rows exist, or the feed may skip them, %s. Otherwise start again.', seek);
        WHEN 'joined' THEN
            RAISE 'table % may have new rows of transactions that are in the batch', member::regclass
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'Since the batch was made, the table was attached, or its guard was disabled for a while. '
                           'The batch may now have rows that it did not have when it was first read.',
                  HINT = format('To renew the batch, %s. Or detach the partition until the batch is finished.', seek);
    END CASE;
END $$;

CREATE FUNCTION inorder_internal.beyond_query(t inorder_internal.feed_table) RETURNS text
LANGUAGE sql STABLE
RETURN format('SELECT ''beyond''::pg_catalog.text AS fault, NULL::pg_catalog.oid AS member '
              'WHERE EXISTS (SELECT FROM %s WHERE e.%I OPERATOR(pg_catalog.>=) %s)',
              inorder_internal.named((t).relation), (t).key_column,
              inorder_internal.bound(t, inorder_internal.next_transaction((t).base)));

CREATE FUNCTION inorder_internal.unnumbered_query(t inorder_internal.feed_table) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- An index that lacks the rows with number 0 also lacks nulls. The table itself is therefore searched for nulls,
    -- unless the column cannot be null.
    RETURN format('SELECT ''unnumbered''::pg_catalog.text AS fault, NULL::pg_catalog.oid AS member '
                  'WHERE %4$s EXISTS (SELECT FROM %1$s WHERE e.%2$I OPERATOR(pg_catalog.<) %3$s)',
                  inorder_internal.named(t.relation), t.key_column, inorder_internal.bound(t, 0),
                  CASE WHEN EXISTS (SELECT FROM pg_attribute AS a
                                    WHERE a.attrelid = ANY (inorder_internal.tree(t.relation)::oid[])
                                      AND a.attname = t.key_column AND inorder_internal.may_be_null(a))
                       THEN format('EXISTS (SELECT FROM %s WHERE e.%I IS NULL) OR',
                                   inorder_internal.named(t.relation), t.key_column) END);
END $$;

CREATE FUNCTION inorder_internal.part_source(relation regclass, member regclass, caller oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hidden boolean;
BEGIN
    -- Checking the row security of a partition also locks the partition, which keeps the result valid.
    IF member <> relation THEN
        hidden := inorder_internal.hides_rows(caller, member);
    END IF;
    IF member = relation OR NOT hidden AND inorder_internal.may_read(caller, member) THEN
        RETURN format('ONLY %s WHERE ', inorder_internal.named(member));
    END IF;
    -- A role that may read a table may read its partitions through the table, without privileges on the partitions.
    RETURN format('%s WHERE e.tableoid OPERATOR(pg_catalog.=) %L::pg_catalog.oid AND (%s) AND ',
                  inorder_internal.named(relation), member::oid,
                  inorder_internal.partition_bounds(relation, member));
END $$;

-- Return the query that looks in a table or partition for rows of a set of transactions, and for rows of another
-- transaction up to a key. If there are such rows, the query returns a fault.
CREATE FUNCTION inorder_internal.passed_query(
    t inorder_internal.feed_table, transactions int8multirange, partial bigint, last_key text[], member regclass,
    caller oid, fault text
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    source text := inorder_internal.part_source(t.relation, member, caller);
    passed text[];
BEGIN
    IF NOT isempty(transactions) THEN
        passed := ARRAY[format('EXISTS (SELECT %s)', inorder_internal.from_ranges(t, source, transactions, ''))];
    END IF;
    IF partial IS NOT NULL THEN
        passed := passed || format('EXISTS (SELECT FROM %s%s AND (%s) OPERATOR(pg_catalog.<=) (%s))', source,
            inorder_internal.in_range(t, inorder_internal.one_number(partial)),
            inorder_internal.column_list(t.order_columns), inorder_internal.literal_list(t, last_key));
    END IF;
    RETURN format('SELECT %L::pg_catalog.text AS fault, %L::pg_catalog.oid AS member WHERE %s', fault, member::oid,
                  coalesce(array_to_string(passed, ' OR '), 'false'));
END $$;

-- Return the query for rows that were added to the transactions of a batch after the batch was made; null if there
-- cannot be such rows.
CREATE FUNCTION inorder_internal.joined_query(
    t inorder_internal.feed_table, b @extschema@.feed_batch, members @extschema@.feed_member[], caller oid
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF b.members IS NULL OR NOT inorder_internal.differ(b.members, members) THEN
        RETURN NULL;
    END IF;
    PERFORM inorder_internal.complain(t, 'joined', m.member::oid)
    FROM inorder_internal.new_members(t, b.members, b.origin) AS m WHERE m.was_attached AND b.transactions <> '{}';
    RETURN (SELECT string_agg(concat('(', inorder_internal.passed_query(t, b.transactions, NULL, NULL, m.member,
                                                                        caller, 'joined'), ')'), ' UNION ALL ')
                   || ' LIMIT 1'
            FROM inorder_internal.new_members(t, b.members, b.origin) AS m);
END $$;

-- Return the query that looks for faults of a table before the table is read.
CREATE FUNCTION inorder_internal.probe_query(
    t inorder_internal.feed_table, p @extschema@.feed_position, b @extschema@.feed_batch, caller oid
) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    probes text[] := ARRAY[inorder_internal.beyond_query(t)];
    passed int8multirange := inorder_internal.passed_by(p);
BEGIN
    IF inorder_internal.differ(p.members, b.members) THEN
        IF passed <> '{}' OR p.partial IS NOT NULL THEN
            PERFORM inorder_internal.complain(t, 'unguarded', m.member::oid)
            FROM inorder_internal.new_members(t, p.members, p.origin) AS m WHERE m.was_attached;
        END IF;
        probes := probes || inorder_internal.unnumbered_query(t)
            || ARRAY(SELECT inorder_internal.passed_query(t, passed, p.partial, p.last_key, m.member, caller,
                                                          'passed')
                     FROM inorder_internal.new_members(t, p.members, p.origin) AS m WHERE NOT m.was_attached);
    END IF;
    RETURN concat('(', array_to_string(probes, ') UNION ALL ('), ') LIMIT 1');
END $$;

-- Return true if a transaction has already begun. In the SQL edition, next_transaction() depends on the snapshot, and
-- in REPEATABLE READ the snapshot may be older than a position that a reader keeps.
CREATE FUNCTION inorder_internal.has_begun(id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_xact_status(id::text::xid8);
    RETURN true;
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN false;
END $$;

CREATE FUNCTION inorder_internal.say_ahead(relation regclass, highest bigint, next bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE 'this position on % is ahead of the server', relation
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = format('Transactions up to %s have been read, and the next transaction is %s.', highest, next),
          HINT = format('After a restore call feed_rebase(%L, %s): new numbers are then above those of the position.',
                        relation, highest);
END $$;

-- Raise an error if a position or batch that a reader keeps belongs to another table.
CREATE FUNCTION inorder_internal.check_same(
    t inorder_internal.feed_table, remembered @extschema@.feed_member[], what text
) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- On another server the OID of the table differs, and the table is recognized by its name. A restore recomputes
    -- the numbers of a generated column; pg_upgrade keeps numbers and OIDs.
    IF remembered IS NULL OR EXISTS (SELECT FROM unnest(remembered) AS k WHERE k.relation = t.relation::oid)
       OR NOT t.is_generated AND NOT EXISTS (SELECT FROM unnest(remembered) AS k
                                             WHERE k.system = inorder_internal.server_system()) THEN
        RETURN;
    END IF;
    RAISE 'this % belongs to another table, not to %', what, t.relation
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'The other table was dropped, restored or renamed, and this table now has its name. Rows of this '
                   'table may have numbers that were read in the other table.',
          HINT = format('Call reader_start(%L) for a new position. If this table has exactly the rows of the '
                        'other table, with the same numbers, copy the members of the new position into this position '
                        'instead.', t.relation);
END $$;

-- Raise an error if a position belongs to another table. Also raise an error if a position has transactions but no
-- members. Only a reader can construct such a position.
CREATE FUNCTION inorder_internal.check_remembers(t inorder_internal.feed_table, p @extschema@.feed_position)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.passed_by(p) = '{}' AND p.partial IS NULL THEN
        RETURN;
    ELSIF p.members IS NULL THEN
        RAISE 'this position on % remembers no partitions', t.relation
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Reads would not notice that a partition was attached with rows of transactions that were '
                       'read, that the guard was disabled, or that the primary key was replaced.',
              HINT = format('If there was no such change, call reader_seek(%L, position) or, if the database keeps '
                            'the position, %s.', t.relation, inorder_internal.seek_call(t.relation));
    END IF;
    PERFORM inorder_internal.check_same(t, p.members, 'position');
END $$;
