-- The WHEN clauses of the guard's triggers are evaluated for each row, and feed_guard() is called only for rows that a
-- clause refuses. The triggers fire AFTER: no other trigger changes a row that these triggers have checked.
--
-- guarded_number() is declared IMMUTABLE, as xact_id_generated() is, and its arguments are constants. guarded_number()
-- is called once for each statement, when the server plans the clause; no plan of the clause is kept. For keys,
-- is_foreign() is called for each row, because a clause that compares keys with a constant of guarded_number() would
-- take 3 to 6 us more for each statement, and 0.4 us less for each row.
--
-- A WHEN clause contains both the name and the OID of the table. After a restore the name refers to a table with
-- another OID, and the trigger fires for each row until feed_rebase() creates the trigger again. If the table has the
-- same OID by chance, only the state shows that the table was restored. Each session reads the state once, and keeps
-- the result in a setting.
--
-- The functions are not written in SQL, because they would be inlined and planned for each statement, which takes 0.7
-- us for each function, operator and constant. The functions have no SET clauses, which would take 0.2 us for each
-- call; all names are therefore qualified.

-- True if a table was restored from a dump, and not accepted since. If the state shows that the table was not restored,
-- or was accepted, the setting is set to yes.
CREATE FUNCTION inorder_internal.is_restored(root regclass, setting text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_here boolean := (SELECT t.written_here IS TRUE FROM inorder_internal.feed_table AS t WHERE t.relation = root);
BEGIN
    -- If the snapshot does not see a row for the table, the table was enabled later, on this server.
    IF is_here THEN
        PERFORM set_config(setting, 'yes', false);
    END IF;
    RETURN is_here IS FALSE;
END $$;

-- The number of this transaction, which rows of a table must have; null if the table was restored.
CREATE FUNCTION inorder_internal.guarded_number(base bigint, root regclass, root_id oid, setting text)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN root::pg_catalog.oid OPERATOR(pg_catalog.=) root_id
                 AND (pg_catalog.current_setting(setting, true) OPERATOR(pg_catalog.=) 'yes'
                      OR NOT inorder_internal.is_restored(root, setting))
           THEN pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8 OPERATOR(pg_catalog.+) base END;
END $$;

-- True if a key was not made by this transaction, or if the table was restored.
CREATE FUNCTION inorder_internal.is_foreign(key uuid, base bigint, root regclass, root_id oid, setting text)
RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN key IS NULL OR root::pg_catalog.oid OPERATOR(pg_catalog.<>) root_id
        OR pg_catalog.substring(pg_catalog.uuid_send(key), 1, 6) OPERATOR(pg_catalog.<>) pg_catalog.substring(
            pg_catalog.int8send(pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8
                                OPERATOR(pg_catalog.+) base), 3)
        OR (pg_catalog.get_byte(pg_catalog.uuid_send(key), 6) OPERATOR(pg_catalog.>>) 4) OPERATOR(pg_catalog.<>) 8
        OR (pg_catalog.get_byte(pg_catalog.uuid_send(key), 8) OPERATOR(pg_catalog.>>) 6) OPERATOR(pg_catalog.<>) 2
        OR coalesce(pg_catalog.current_setting(setting, true), '') OPERATOR(pg_catalog.<>) 'yes'
           AND inorder_internal.is_restored(root, setting);
END $$;

-- True if rows of a publisher may be inserted and changed. On this server no feed reads the table before feed_enable()
-- or feed_rebase(), which check all numbers.
CREATE FUNCTION inorder_internal.is_receiving(relation regclass) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN current_setting('session_replication_role') = 'replica'
       AND current_setting('transaction_isolation') = 'read committed'
       AND (SELECT bool_and(t.written_here IS TRUE) IS NOT TRUE FROM inorder_internal.feed_table AS t
            WHERE t.relation = ANY (is_receiving.relation || ARRAY(
                SELECT a.relid FROM pg_partition_ancestors(is_receiving.relation) AS a(relid)))
              AND inorder_internal.has_own_guard(t.relation));
END $$;

-- Raise the error about a row that has the right number, but is refused because the trigger was made for another table.
CREATE FUNCTION inorder_internal.say_other_guard(relation regclass, trigger_name name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    root regclass := coalesce(pg_partition_root(relation), relation);
BEGIN
    RAISE 'table % accepts no rows: trigger "%" differs from what feed_enable() creates for this table', relation,
          trigger_name
    USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = 'The table was restored without the state of inorder, as by pg_dump --schema-only or --table, or the '
                   'trigger was made by hand.',
          HINT = format('Its owner must call feed_enable(%L), or feed_disable(%L) to drop the guard.', root, root);
END $$;

---- feed_guard: plpgsql
DECLARE
    names name[];
    is_uuid boolean;
    number bigint;
    key text;
    key_number bigint;
    changed name;
    differs boolean;
BEGIN
    IF inorder_internal.is_receiving(TG_RELID) THEN
        RETURN NULL;
    ELSIF TG_OP IN ('DELETE', 'TRUNCATE') THEN
        PERFORM inorder_internal.say_insert_only(
            TG_RELID, CASE TG_OP WHEN 'DELETE' THEN 'delete from' ELSE 'truncate' END);
    ELSIF TG_NARGS < 1 THEN
        RAISE 'trigger "%" has no base among its arguments', TG_NAME
        USING ERRCODE = 'trigger_protocol_violated', HINT = 'feed_enable() creates the right triggers.';
    ELSIF TG_LEVEL <> 'ROW' THEN
        RAISE 'trigger "%" is not for each row', TG_NAME
        USING ERRCODE = 'trigger_protocol_violated', HINT = 'feed_enable() creates the right triggers.';
    END IF;
    SELECT array_agg(a.attname ORDER BY k.place), (array_agg(a.atttypid ORDER BY k.place))[1] = 'uuid'::regtype
    INTO names, is_uuid
    FROM pg_trigger AS g CROSS JOIN LATERAL unnest(g.tgattr::smallint[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute AS a ON a.attrelid = g.tgrelid AND a.attnum = k.attnum
    WHERE g.tgrelid = TG_RELID AND g.tgname = 'zz_inorder_guard';
    IF names IS NULL THEN
        RAISE 'trigger "%" names no column', TG_NAME
        USING ERRCODE = 'trigger_protocol_violated', HINT = 'feed_enable() creates the right triggers.';
    ELSIF TG_OP = 'INSERT' THEN
        PERFORM inorder_internal.say_restored_table(t.relation)
        FROM inorder_internal.feed_table AS t
        WHERE t.relation = ANY (TG_RELID::regclass || ARRAY(SELECT a.relid FROM pg_partition_ancestors(TG_RELID) AS a(relid)))
          AND t.written_here IS NOT TRUE AND inorder_internal.has_own_guard(t.relation);
        number := inorder_internal.plus_base(pg_current_xact_id()::text::bigint, TG_ARGV[0]::bigint);
        -- The value is converted by the output function of its type, because a cast could be a function of another
        -- role.
        EXECUTE format('SELECT nullif(pg_catalog.concat(($1).%I), ''''::pg_catalog.text)', names[1]) INTO key USING NEW;
        key_number := CASE WHEN NOT is_uuid THEN key::bigint
                     WHEN substr(key, 15, 1) = '8' AND substr(key, 20, 1) ~ '[89ab]'
                     THEN concat('x', left(replace(key, '-', ''), 12))::bit(48)::bigint END;
        IF key_number = number THEN
            PERFORM inorder_internal.say_other_guard(TG_RELID, TG_NAME);
        END IF;
        PERFORM inorder_internal.say_foreign(TG_RELID, names[1], is_uuid, key, key_number, number);
    ELSIF TG_NAME = 'zz_inorder_guard' THEN
        RETURN NULL;  -- zz_inorder_update compares the columns
    END IF;
    FOREACH changed IN ARRAY names || names[1] LOOP
        EXECUTE format('SELECT pg_catalog.concat(ROW(($1).%1$I)) OPERATOR(pg_catalog.<>) pg_catalog.concat(ROW(($2).%1$I))',
                       changed) INTO differs USING OLD, NEW;
        EXIT WHEN differs;
    END LOOP;
    PERFORM inorder_internal.say_changed(TG_RELID, changed);
END
