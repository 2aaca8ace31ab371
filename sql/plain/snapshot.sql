-- Functions for transactions, with the information that is available in SQL.

-- Make the commit of this transaction flush the WAL, even if synchronous_commit is changed before the commit, for
-- example by a function that is still running. The transaction cannot be prepared.
CREATE FUNCTION inorder_internal.force_commit() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The server executes the query of a cursor WITH HOLD at the commit. All functions of the caller have then ended,
    -- and cannot undo the setting. The cursor remains after the transaction. The query of the cursor therefore contains
    -- the id of the transaction.
    query text := format($_$DECLARE inorder_commit NO SCROLL CURSOR WITH HOLD FOR
                            SELECT pg_catalog.set_config('synchronous_commit', 'local', true)
                            WHERE pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off' -- %s$_$,
                         pg_current_xact_id());
    existing_query text := (SELECT c.statement FROM pg_cursor() AS c WHERE c.name = 'inorder_commit');
BEGIN
    IF existing_query = query THEN
        -- The cursor of this transaction is kept, because a new cursor would vanish at a rollback to an earlier
        -- savepoint.
        RETURN;
    ELSIF existing_query IS NOT NULL THEN
        EXECUTE 'CLOSE inorder_commit';
    END IF;
    EXECUTE query;
END $$;

---- xact_id_generated: plpgsql bare
BEGIN
    IF base OPERATOR(pg_catalog.=) 0
       AND pg_catalog.pg_current_xact_id() OPERATOR(pg_catalog.<=) '281474976710655'::pg_catalog.xid8 THEN
        RETURN pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8;
    END IF;
    RETURN inorder_internal.number_above(base);
END
---- ended_transactions: plpgsql keys
DECLARE
    s pg_snapshot := pg_current_snapshot();
    -- The current transaction is in progress, although its snapshot does not list it.
    own xid8 := pg_current_xact_id_if_assigned();
    result int8multirange;
BEGIN
    -- On a standby a snapshot lists no transaction in progress.
    IF pg_is_in_recovery() THEN
        RAISE 'the SQL edition of inorder cannot determine on a standby which transactions have ended'
        USING ERRCODE = 'feature_not_supported', HINT = 'Read on the primary, or install the C extension.';
    END IF;
    result := int8multirange(int8range(0, inorder_internal.plus_base(pg_snapshot_xmax(s)::text::bigint, base)));
    IF own < pg_snapshot_xmax(s) THEN
        result := result - int8multirange(int8range(own::text::bigint + base, own::text::bigint + base + 1));
    END IF;
    IF pg_snapshot_xmin(s) = pg_snapshot_xmax(s) THEN
        RETURN result;
    END IF;
    RETURN result - coalesce((SELECT range_agg(int8range(x::text::bigint + base, x::text::bigint + base + 1))
                              FROM pg_snapshot_xip(s) AS x), '{}');
END
---- ended_everywhere: sql
RETURN inorder_internal.ended_transactions(base);
---- next_transaction: plpgsql keys
DECLARE
    -- The next transaction ID to be assigned is not visible in SQL, but no row that the snapshot sees has a higher
    -- number.
    xact bigint := greatest(pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                            pg_current_xact_id_if_assigned()::text::bigint + 1);
BEGIN
    RETURN inorder_internal.plus_base(xact, base);
END
---- server_origin: plpgsql keys
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE 'the SQL edition of inorder cannot determine on a standby which timeline it follows'
        USING ERRCODE = 'feature_not_supported', HINT = 'Read on the primary, or install the C extension.';
    END IF;
    RETURN concat(inorder_internal.server_system(), '/',
                  concat('x', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint);
END
---- server_system: plpgsql IMMUTABLE keys
BEGIN
    -- The identifier never changes while a session is connected. The function is IMMUTABLE, so that a cached
    -- plan contains the identifier, and does not open the control file again. A SELECT from the function would take
    -- twice as long.
    RETURN (pg_control_system()).system_identifier;
END
---- numbers_minus: sql
RETURN numbers - others;
---- numbers_plus: sql
RETURN numbers + others;
