-- Functions that adapt a table and its feeds to another cluster, after a restore. The body of feed_rebase() is in
-- enable.sql.

-- Return the description of a restored table, and the query for its highest number. The query is null if numbers were
-- recomputed.
CREATE FUNCTION inorder_internal.describe_restored(relation regclass, beyond bigint,
                                                   OUT t inorder_internal.feed_table, OUT highest_query text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF beyond NOT BETWEEN 0 AND 281474976710655 THEN
        RAISE 'beyond must be between 0 and 281474976710655, not %', beyond
        USING ERRCODE = 'numeric_value_out_of_range';
    END IF;
    t := inorder_internal.describe(relation, (SELECT f.key_column FROM inorder_internal.feed_table AS f
                                              WHERE f.relation = describe_restored.relation));
    -- A restore recomputes generated numbers, which are therefore numbers of this server, and do not change.
    IF t.is_generated THEN
        IF beyond >= inorder_internal.next_transaction(t.base) THEN
            RAISE 'column % of % is generated: its base cannot be raised', quote_ident(t.key_column), relation
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The restore gave all rows new numbers, to which earlier positions do not apply.',
                  HINT = 'Readers that keep their positions must call reader_start() for new positions.';
        END IF;
        RETURN;
    END IF;
    -- max(uuid) is missing in most versions of PostgreSQL.
    highest_query := format('SELECT %s FROM %sTRUE AND e.%I %s ORDER BY e.%3$I DESC LIMIT 1',
                            inorder_internal.number_text(t), inorder_internal.whole_table(t), t.key_column,
                            CASE WHEN t.is_partial THEN 'OPERATOR(pg_catalog.>) ''0''::pg_catalog.int8'
                                 ELSE 'IS NOT NULL' END);
END $$;

CREATE FUNCTION inorder_internal.raised_base(t inorder_internal.feed_table, beyond bigint, highest bigint)
RETURNS bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT greatest((t).base, coalesce(max(n.number), 0::bigint) + 1
                              -- Transactions in progress may still insert rows. The numbers of these rows must also be
                              -- above all numbers in positions of another server. If the table was not restored, no
                              -- position includes a transaction in progress.
                              - CASE WHEN NOT EXISTS (SELECT FROM inorder_internal.feed_table AS k
                                                      WHERE k.relation = (t).relation AND k.written_here)
                                       OR EXISTS (SELECT FROM inorder_internal.feed_state AS s
                                                  WHERE s.relation = (t).relation AND s.written_here IS NOT TRUE)
                                       OR NOT inorder_internal.has_guard(t)
                                     THEN (SELECT upper(r) FROM unnest(inorder_internal.ended_transactions(0::bigint))
                                                                     AS r ORDER BY r LIMIT 1)
                                     ELSE inorder_internal.next_transaction(0::bigint) END)
    FROM (SELECT highest UNION ALL SELECT beyond
          UNION ALL SELECT greatest((s.position).partial, upper(inorder_internal.passed_by(s.position)) - 1)
                    FROM inorder_internal.feed_state AS s WHERE s.relation = (t).relation
          UNION ALL SELECT upper(p.counted) - 1 FROM inorder_internal.count_part AS p
                    WHERE p.relation = (t).relation) AS n(number);
END;

CREATE FUNCTION inorder_internal.base_statement(t inorder_internal.feed_table, base bigint) RETURNS text
LANGUAGE sql STABLE
RETURN format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.%I(%L::pg_catalog.int8)', (t).relation, (t).key_column,
              inorder_internal.public_schema(),
              CASE WHEN (t).is_uuid THEN 'uuid_xact_nextval' ELSE 'xact_id' END, base);

-- Assign the feeds of a restored table to the roles of this cluster, by name. A subscription may have inserted rows
-- since the restore. In that case, also delete the stored counts, and remove the partitions from the positions of feeds
-- that have moved on this server.
CREATE FUNCTION inorder_internal.adopt_roles(table_relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
-- In a restored database the OIDs of roles differ. The owner of the table confirms the names, which come from the
-- dump. On the server that stored the roles, a new role does not replace a dropped role of the same name. A role that
-- has since created another feed of the same name keeps that feed.
AS $$
BEGIN
    UPDATE inorder_internal.feed AS f
    SET owner = n.oid, system = inorder_internal.server_system(),
        movers = ARRAY(SELECT ROW(r.oid, m.name)::inorder_internal.role_ref
                       FROM unnest(f.movers) AS m JOIN pg_roles AS r ON r.rolname = m.name)
    FROM pg_roles AS n
    WHERE f.relation = table_relation AND n.rolname = f.owner_name AND f.system <> inorder_internal.server_system()
      AND NOT EXISTS (SELECT FROM inorder_internal.feed AS o
                      WHERE o.name = f.name
                        AND (o.owner = n.oid AND o.system = inorder_internal.server_system()
                             OR o.relation = f.relation AND o.owner_name = f.owner_name AND o.id < f.id));
    -- A feed that has moved on this server may have passed the numbers of rows that a publisher sent later. The members
    -- of the position of such a feed are removed, which makes feed_seek() necessary. In a clone, positions made on the
    -- original server have another system identifier, and keep their members.
    UPDATE inorder_internal.feed_state AS s
    SET position.members = NULL
    FROM inorder_internal.feed_table AS k
    WHERE s.relation = table_relation AND k.relation = s.relation AND s.written_here AND k.written_here IS NOT TRUE
      AND NOT k.is_generated AND split_part((s.position).origin, '/'::text, 1) = inorder_internal.server_system();
    -- Delete the state of feeds that were not restored, because they belong to other roles: see leave_out_others().
    DELETE FROM inorder_internal.feed_state AS s
    WHERE s.relation = table_relation AND NOT EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = s.feed);
    DELETE FROM inorder_internal.worker_batch AS b
    WHERE b.relation = table_relation AND NOT EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = b.feed);
    DELETE FROM inorder_internal.count_part AS p
    WHERE p.relation = table_relation AND EXISTS (SELECT FROM inorder_internal.feed_table AS k
                                                  WHERE k.relation = p.relation AND k.written_here IS NOT TRUE);
END $$;

-- Return the members of a restored position, with the tables that have the same names in this database.
CREATE FUNCTION inorder_internal.known_here(t inorder_internal.feed_table, remembered @extschema@.feed_member[])
RETURNS @extschema@.feed_member[]
LANGUAGE sql STABLE STRICT
-- If a member already refers to a table of this server, the member is kept, because the table may have changed since
-- the dump. The name of table t itself may differ; it is found as the only member without an attachment.
BEGIN ATOMIC
    SELECT array_agg(CASE WHEN k.relation = m.relation AND k.system = m.system THEN k
                          ELSE ROW(m.relation, m.name, m.system, m.attached, m.guarded,
                                   k.ordered_by)::@extschema@.feed_member END ORDER BY m.relation)
    FROM unnest(inorder_internal.members(t)) AS m
    JOIN unnest(remembered) AS k ON k.name = m.name OR k.attached = '{}'::bigint[] AND m.attached = '{}'::bigint[];
END;

CREATE FUNCTION inorder_internal.accept_feeds(t inorder_internal.feed_table) RETURNS void
LANGUAGE sql VOLATILE
-- Batches get numbers in a new range, because the numbers that the old server has assigned since the dump are unknown
-- here. If the numbers of rows were recomputed, the position is invalid, and feed_seek() must set another position.
BEGIN ATOMIC
    -- Batches and shares are changed first, because a feed counts as accepted when its position is written.
    UPDATE inorder_internal.worker_batch AS b
    SET batch.members = inorder_internal.known_here(t, (b.batch).members),
        batch.ordering = inorder_internal.renumbered((t).relation, (b.batch).ordering),
        worker = NULL, token = NULL, lease_end = '-infinity'::timestamptz
    FROM inorder_internal.feed_state AS s
    WHERE s.feed = b.feed AND s.relation = (t).relation AND b.relation = (t).relation
      AND s.written_here IS DISTINCT FROM true
      AND NOT (t).is_generated;
    -- The column that divides a feed is found by its name in this database.
    UPDATE inorder_internal.feed AS f
    SET shared_by.attnum = (inorder_internal.new_share_key((t).relation, (f.shared_by).column_name,
                                                           (f.shared_by).shares)).attnum
    FROM inorder_internal.feed_state AS s
    WHERE s.feed = f.id AND f.relation = (t).relation AND s.written_here IS DISTINCT FROM true
      AND (f.shared_by).shares IS NOT NULL
      AND NOT (t).is_generated;
    UPDATE inorder_internal.feed_state AS s
    SET position.origin = inorder_internal.server_origin(), batch_origin = NULL,
        first_batch = '-9223372036854775808'::bigint,
        position.members = inorder_internal.known_here(t, (s.position).members),
        position.ordering = inorder_internal.renumbered((t).relation, (s.position).ordering)
    WHERE s.relation = (t).relation AND s.written_here IS DISTINCT FROM true
      AND NOT (t).is_generated;
END;

CREATE FUNCTION @extschema@.feed_rebase(relation regclass, beyond bigint DEFAULT 0) RETURNS bigint
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.feed_rebase(regclass, bigint) IS
'Accept a table that was restored from a dump, with its feeds, and return the base of its transaction numbers.';
