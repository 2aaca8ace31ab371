-- Last: who may do what.
--
-- Each role reads and writes the state by itself, with its own privileges: row security says which rows. So nothing that
-- a third party makes runs as the role that installed this, and a role that writes to the state without the functions can
-- change only what these would let it change: its own feeds, and what it may move.

DO $$
DECLARE
    grantee oid;
BEGIN
    -- Whatever default privileges gave away: a role that can create functions there could overload ours.
    FOR grantee IN SELECT a.grantee FROM pg_namespace AS n CROSS JOIN LATERAL aclexplode(n.nspacl) AS a
                   WHERE n.nspname = '@extschema@' AND n.nspname <> 'public' AND a.grantee <> n.nspowner LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %s', '@extschema@',
                       CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
    END LOOP;
END $$;

-- Whether a table was dropped: then any role may delete what else the state has of it than feeds.
CREATE FUNCTION inorder_internal.is_gone(relation regclass) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = relation);
END $$;

GRANT USAGE ON SCHEMA @extschema@ TO PUBLIC;
GRANT USAGE ON SCHEMA inorder_internal TO PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA inorder_internal TO PUBLIC;
DO $$
BEGIN
    -- Default privileges may have taken that away, too. The schema public has functions of others.
    IF '@extschema@' <> 'public' THEN
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA @extschema@ TO PUBLIC;
    END IF;
END $$;

DO $$
DECLARE
    type regtype;
BEGIN
    FOR type IN SELECT t.oid FROM pg_type AS t WHERE t.typnamespace = 'inorder_internal'::regnamespace
                AND t.typtype IN ('c', 'd') AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.reltype = t.oid
                                                            AND c.relkind <> 'c') LOOP
        EXECUTE format('GRANT USAGE ON TYPE %s TO PUBLIC', type);
    END LOOP;
END $$;

-- Trigger on feeds: roles that may move a feed may not give it away, and only its owner renames it.
CREATE FUNCTION inorder_internal.keep_given() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    caller oid := inorder_internal.caller();
    is_owner boolean := inorder_internal.is_role(caller, OLD.owner, OLD.owner_name, OLD.system);
    is_here boolean := NEW.system = inorder_internal.server_system();
BEGIN
    IF (OLD.id, OLD.relation, OLD.created, OLD.whole_transactions)
       IS DISTINCT FROM (NEW.id, NEW.relation, NEW.created, NEW.whole_transactions) THEN
        RAISE 'a feed keeps its id and its table' USING ERRCODE = 'insufficient_privilege';
    ELSIF OLD.movers IS DISTINCT FROM NEW.movers AND NOT is_owner AND NOT inorder_internal.owns(caller, OLD.relation) THEN
        RAISE 'must be owner of feed % or of its table', quote_literal(OLD.name)
        USING ERRCODE = 'insufficient_privilege';
    ELSIF (OLD.name, OLD.owner, OLD.system) IS DISTINCT FROM (NEW.name, NEW.owner, NEW.system)
          AND NOT (is_owner AND pg_has_role(caller, NEW.owner, 'USAGE') AND is_here)
          -- What adopt_roles() does.
          AND NOT (OLD.name = NEW.name AND OLD.system <> NEW.system AND is_here
                   AND pg_get_userbyid(NEW.owner) = OLD.owner_name
                   AND inorder_internal.owns(caller, OLD.relation)) THEN
        RAISE 'must be owner of feed %', quote_literal(OLD.name) USING ERRCODE = 'insufficient_privilege';
    -- Each move renews it.
    ELSIF NEW.owner_name <> OLD.owner_name AND NOT (is_here AND NEW.owner_name = pg_get_userbyid(NEW.owner)) THEN
        RAISE 'the name of the owner of feed % is another', quote_literal(OLD.name)
        USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER keep_given AFTER UPDATE ON inorder_internal.feed
FOR EACH ROW EXECUTE FUNCTION inorder_internal.keep_given();

-- Trigger on the state of feeds: it stays what it is the state of, and no number of a batch comes again.
CREATE FUNCTION inorder_internal.keep_state() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (OLD.feed, OLD.relation) IS DISTINCT FROM (NEW.feed, NEW.relation) OR NEW.seq NOT IN (OLD.seq, OLD.seq + 1) THEN
        RAISE 'a feed keeps its id and its table' USING ERRCODE = 'insufficient_privilege';
    ELSIF NEW.batch < OLD.batch THEN
        RAISE 'feed % has returned batch %, and cannot go back to %',
              (SELECT quote_literal(f.name) FROM inorder_internal.feed AS f WHERE f.id = OLD.feed), OLD.batch, NEW.batch
        USING ERRCODE = 'insufficient_privilege', HINT = 'No number of a batch comes again.';
    END IF;
    RETURN NULL;
END $$;
-- AFTER: with a BEFORE trigger each UPDATE computes written_here anew, also one that leaves a restored position as it is.
CREATE TRIGGER keep_state AFTER UPDATE ON inorder_internal.feed_state
FOR EACH ROW EXECUTE FUNCTION inorder_internal.keep_state();
-- Triggers of the state need no EXECUTE when they fire, and nobody makes others of their functions. Owners make those of
-- logs, which ask for nothing but privileges. What was made here may have other default privileges.
DO $$
DECLARE
    given record;
BEGIN
    FOR given IN SELECT p.oid::regprocedure AS function, a.grantee
                 FROM pg_proc AS p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
                 WHERE p.pronamespace = 'inorder_internal'::regnamespace AND a.grantee <> p.proowner
                   AND (a.grantee <> 0 OR p.prorettype = 'trigger'::regtype
                                          AND p.proname NOT IN ('check_writer', 'check_marker')) LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s', given.function,
                       CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END);
    END LOOP;
END $$;

-- How a table is read shows in the catalog, too.
CREATE POLICY look ON inorder_internal.feed_table FOR SELECT USING (true);
CREATE POLICY look ON inorder_internal.counted_table FOR SELECT USING (true);
CREATE POLICY look ON inorder_internal.count_part FOR SELECT
    USING (inorder_internal.may_read(inorder_internal.caller(), relation) OR inorder_internal.is_gone(relation));
CREATE POLICY own ON inorder_internal.feed_table
    USING (inorder_internal.owns(inorder_internal.caller(), relation) OR inorder_internal.is_gone(relation))
    WITH CHECK (inorder_internal.owns(inorder_internal.caller(), relation));
CREATE POLICY own ON inorder_internal.counted_table
    USING (inorder_internal.owns(inorder_internal.caller(), relation) OR inorder_internal.is_gone(relation))
    WITH CHECK (inorder_internal.owns(inorder_internal.caller(), relation));
CREATE POLICY own ON inorder_internal.count_part
    USING (inorder_internal.owns(inorder_internal.caller(), relation) OR inorder_internal.is_gone(relation))
    WITH CHECK (inorder_internal.owns(inorder_internal.caller(), relation));

CREATE POLICY look ON inorder_internal.feed FOR SELECT
    USING (inorder_internal.may_move(inorder_internal.caller(), feed)
           OR inorder_internal.may_read(inorder_internal.caller(), relation));
CREATE POLICY make ON inorder_internal.feed FOR INSERT
    WITH CHECK (pg_has_role(inorder_internal.caller(), owner, 'USAGE')
                AND owner_name = pg_get_userbyid(owner) AND system = inorder_internal.server_system()
                AND inorder_internal.may_read(inorder_internal.caller(), relation));
CREATE POLICY move ON inorder_internal.feed FOR UPDATE
    USING (inorder_internal.may_move(inorder_internal.caller(), feed));
CREATE POLICY remove ON inorder_internal.feed FOR DELETE
    USING (inorder_internal.is_role(inorder_internal.caller(), owner, owner_name, system)
           OR inorder_internal.owns(inorder_internal.caller(), relation));

-- Who sees a feed sees its state, and who may move it writes there. Who drops a feed of another role deletes its state
-- by the rule below, and not alone.
CREATE POLICY look ON inorder_internal.feed_state FOR SELECT
    USING (EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = feed_state.feed));
CREATE POLICY make ON inorder_internal.feed_state FOR INSERT
    WITH CHECK (EXISTS (SELECT FROM inorder_internal.feed AS f
                        WHERE f.id = feed_state.feed AND f.relation = feed_state.relation
                          AND inorder_internal.is_role(inorder_internal.caller(), f.owner, f.owner_name, f.system)));
CREATE POLICY move ON inorder_internal.feed_state FOR UPDATE
    USING (EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = feed_state.feed
                   AND inorder_internal.may_move(inorder_internal.caller(), f)));
CREATE POLICY remove ON inorder_internal.feed_state FOR DELETE
    USING (EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = feed_state.feed
                   AND inorder_internal.is_role(inorder_internal.caller(), f.owner, f.owner_name, f.system)));

-- Who sees a feed sees what is not finished of it.
CREATE POLICY look ON inorder_internal.worker_batch FOR SELECT
    USING (EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = worker_batch.feed));
CREATE POLICY own ON inorder_internal.worker_batch
    USING (EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = worker_batch.feed
                   AND inorder_internal.may_move(inorder_internal.caller(), f)));
CREATE POLICY look ON inorder_internal.share_worker FOR SELECT
    USING (EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = share_worker.feed));
CREATE POLICY own ON inorder_internal.share_worker
    USING (EXISTS (SELECT FROM inorder_internal.feed AS f WHERE f.id = share_worker.feed
                   AND inorder_internal.may_move(inorder_internal.caller(), f)));

-- INSERT and UPDATE are granted by column: on a whole table they, and DELETE, would allow LOCK TABLE. Rows are deleted by
-- an UPDATE of a view of those that the caller may delete, which a rule makes a DELETE: see remove_rows() in
-- inorder/install/edition.py. The view is of a schema in which nobody else can put anything in its place.
DO $$
DECLARE
    t record;
    grantee oid;
BEGIN
    FOR t IN SELECT c.relname AS name, 'removable_' || c.relname AS view, pg_get_expr(p.polqual, p.polrelid) AS condition,
                    (SELECT string_agg(format('%I', a.attname), ', ') FROM pg_attribute AS a
                     WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.attgenerated = '') AS columns,
                    (SELECT string_agg(format('t.%1$I = OLD.%1$I', a.attname), ' AND ') FROM pg_index AS i
                     JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
                     WHERE i.indrelid = c.oid AND i.indisprimary) AS same
             FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
             WHERE c.relnamespace = 'inorder_internal'::regnamespace AND p.polname IN ('own', 'remove') LOOP
        EXECUTE format('ALTER TABLE inorder_internal.%I ENABLE ROW LEVEL SECURITY', t.name);
        EXECUTE format('GRANT SELECT, INSERT (%1$s), UPDATE (%1$s) ON inorder_internal.%2$I TO PUBLIC', t.columns, t.name);
        EXECUTE format('CREATE OR REPLACE VIEW inorder_internal.%I WITH (security_barrier) AS '
                       'SELECT false AS removed, %2$I.* FROM inorder_internal.%2$I WHERE %3$s', t.view, t.name, t.condition);
        EXECUTE format('CREATE OR REPLACE RULE remove AS ON UPDATE TO inorder_internal.%I '
                       'DO INSTEAD (%s DELETE FROM inorder_internal.%I AS t WHERE %s%s)', t.view,
                       CASE t.name WHEN 'feed' THEN
                           -- In two parts: edition.py takes a whole one for a statement of the caller's.
                           'DELETE' || ' FROM inorder_internal.feed_state AS s WHERE s.feed = OLD.id;' END,
                       -- A condition of who deletes may hold for the second one only: the number would not be kept.
                       t.name, t.same, CASE t.name WHEN 'feed' THEN ' AND NOT EXISTS (SELECT FROM '
                           'inorder_internal.feed_state AS s WHERE s.feed = OLD.id)' END);
        FOR grantee IN SELECT a.grantee FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
                       WHERE c.oid = format('inorder_internal.%I', t.view)::regclass AND a.grantee <> c.relowner LOOP
            EXECUTE format('REVOKE ALL ON inorder_internal.%I FROM %s', t.view,
                           CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
        END LOOP;
        EXECUTE format('GRANT SELECT, UPDATE (removed) ON inorder_internal.%I TO PUBLIC', t.view);
        EXECUTE format('COMMENT ON VIEW inorder_internal.%I IS %L', t.view,
                       'Internal view. Rows of ' || t.name || ' that the caller may delete: an UPDATE deletes them.');
    END LOOP;
END $$;

REVOKE ALL ON @extschema@.feeds, @extschema@.feed_batches FROM PUBLIC;
GRANT SELECT ON @extschema@.feeds, @extschema@.feed_batches TO PUBLIC;

DO $$
BEGIN
    PERFORM pg_catalog.set_config('search_path', pg_catalog.current_setting('inorder.search_path'), false);
END $$;
