-- Return one value for each pg_class row of a table that the snapshot sees: true for a permanent heap table without
-- partitions or children. A function that returns rows is inlined into the statement that calls it. Access method 2 is
-- heap.
CREATE FUNCTION inorder_internal.seen_kinds(relation oid) RETURNS TABLE (is_plain boolean)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT c.relkind = 'r'::"char" AND c.relpersistence = 'p'::"char" AND NOT c.relhassubclass AND c.relam = 2::oid
    FROM pg_class AS c WHERE c.oid = relation;
END;

---- is_plain: plpgsql keys
BEGIN
    -- False if the snapshot sees two rows, an older version and a version of this transaction. In this case
    -- seen_members() raises an error.
    RETURN (SELECT count(*) = 1 AND bool_and(c.is_plain) FROM inorder_internal.seen_kinds(relation) AS c);
END
---- hides_rows: plpgsql keys
BEGIN
    -- The current user is the caller.
    RETURN row_security_active(relation);
END
---- check_local: plpgsql keys
BEGIN
    IF inorder_internal.citus_catalog() IS NOT NULL THEN
        RAISE 'the SQL edition of inorder cannot determine whether Citus has distributed %', relation
        USING ERRCODE = 'feature_not_supported', HINT = 'Install the C extension.';
    END IF;
END
---- namesake: plpgsql keys
BEGIN
    -- If the table still has its former name, no other table has this name.
    IF t.relation::text = format('%I.%I', t.known_as[1], t.known_as[2]) THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT c.oid FROM pg_namespace AS n
            CROSS JOIN LATERAL (SELECT k.oid, k.relkind FROM pg_class AS k
                                WHERE k.relname = t.known_as[2] AND k.relnamespace = n.oid OFFSET 0) AS c
            WHERE n.nspname = t.known_as[1] AND c.oid <> t.relation::oid AND c.relkind IN ('r', 'p', 'f'));
END
---- later_trigger: plpgsql
BEGIN
    -- The guard is an AFTER trigger, and no trigger can change the row after it was stored.
    RETURN NULL;
END
---- guard_definitions: sql
-- For a generated column the number is not checked, but the trigger still names the columns.
BEGIN ATOMIC
    SELECT d.name, d.definition
    FROM (SELECT quote_ident((inorder_internal.known_columns(t))[1]) AS key,
                 string_agg(quote_ident(c), ', '::text) AS list,
                 string_agg('old.'::text || quote_ident(c), ', '::text) AS old_row,
                 string_agg('new.'::text || quote_ident(c), ', '::text) AS new_row,
                 format('EXECUTE FUNCTION %s(%L)'::text, inorder_internal.guard_function()::regproc, (t).base) AS call
          FROM unnest(inorder_internal.known_columns(t)) AS c) AS q
    CROSS JOIN LATERAL (VALUES
        ('zz_inorder_guard'::name, format(
            'CREATE TRIGGER zz_inorder_guard AFTER %s OF %s ON %s FOR EACH ROW WHEN (%s) %s'::text,
            CASE WHEN (t).is_generated THEN 'UPDATE'::text ELSE 'INSERT OR UPDATE'::text END, q.list, relation,
            CASE WHEN (t).is_generated THEN 'false'::text
                 ELSE format(CASE WHEN (t).is_uuid THEN 'inorder_internal.is_foreign(new.%s, %s)'::text
                             ELSE '((new.%s = inorder_internal.guarded_number(%s)) IS NOT TRUE)'::text END, q.key,
                             format('%L::bigint, ''%s''::regclass, %L::oid, %L::text'::text, (t).base,
                                    replace((t).relation::text, ''''::text, ''''''::text), (t).relation::oid,
                                    format('inorder.table_%s'::text, (t).relation::oid))) END, q.call)),
        ('zz_inorder_update'::name, format(
            'CREATE TRIGGER zz_inorder_update AFTER UPDATE ON %s FOR EACH ROW WHEN (record_image_ne(ROW(%s), ROW(%s))) %s'::text,
            relation, q.old_row, q.new_row, q.call)),
        ('zz_inorder_delete'::name, format('CREATE TRIGGER zz_inorder_delete AFTER DELETE ON %s FOR EACH ROW %s'::text,
                                           relation, q.call))) AS d(name, definition)
    UNION ALL
    SELECT 'zz_inorder_truncate'::name, inorder_internal.truncate_definition(relation, t)
    WHERE relation::oid = (t).relation::oid;
END;

---- key_base: plpgsql keys
DECLARE
    -- The string contains the name of the schema, on which only the role that installed inorder has privileges. A
    -- bigint is written as '5'::bigint, and a converted integer as (5)::bigint.
    called text := (SELECT format('%I.%I', n.nspname, p.proname) FROM pg_proc AS p
                    JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE p.oid = function);
    -- An expression that refers to columns has VAR nodes, which pg_get_expr() refuses without a table.
    written text := CASE WHEN strpos(expression::text, '{VAR ') = 0 THEN pg_get_expr(expression, 0::oid) END;
    arguments text := CASE WHEN starts_with(written, called) THEN substr(written, length(called) + 1) END;
BEGIN
    RETURN CASE WHEN arguments = '()' THEN 0
                ELSE substring(arguments, concat('^[(](?:base => )?''?[(]?''?(-?[0-9]{1,18})''?[)]?',
                                                 '(?:::(?:bigint|integer))?[)]$'))::bigint END;
END
---- guarded: plpgsql keys
BEGIN
    RETURN (SELECT v.versions FROM inorder_internal.guard_versions(relation, is_placed) AS v);
END
