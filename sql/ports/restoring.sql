-- The trigger that decides which rows of the state a role may restore.
--
-- The owner of the database restores all rows. A role that only installed the extension restores its own rows. Triggers
-- run as the role that restores, which lacks the privilege to execute internal functions. A trigger may therefore call
-- only is_written_here().
--
-- Trigger on the state: skips restored rows of tables and feeds that the role does not own.
CREATE FUNCTION inorder_internal.leave_out_others() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_own boolean;
BEGIN
    is_own := (SELECT pg_has_role(c.relowner, 'MEMBER') FROM pg_class AS c WHERE c.oid = NEW.relation);
    IF TG_TABLE_NAME = 'feed' THEN
        is_own := is_own AND EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = NEW.owner_name
                                                                 AND pg_has_role(r.oid, 'MEMBER'))
            AND (pg_has_role(NEW.owner, 'MEMBER')
                 OR NEW.system <> (SELECT s.system_identifier::text FROM pg_control_system() AS s));
    END IF;
    IF TG_TABLE_NAME IN ('feed_state', 'worker_batch') THEN
        -- Parallel jobs of pg_restore may restore this row before the row of the feed. feed_rebase() deletes rows
        -- without a feed.
        is_own := is_own AND NOT EXISTS (SELECT FROM inorder_internal.feed AS f
                                         WHERE f.id = NEW.feed AND f.relation <> NEW.relation);
    END IF;
    IF TG_TABLE_NAME = 'feed_state' THEN
        is_own := is_own AND NOT EXISTS (SELECT FROM inorder_internal.feed_state AS s WHERE s.feed = NEW.feed);
    END IF;
    IF is_own THEN
        RETURN NEW;
    END IF;
    RAISE WARNING 'skipping a row of %: its table or feed belongs to another role', TG_RELID::regclass
    USING HINT = 'The owner of the database must restore this row.';
    RETURN NULL;
END $$;
DO $$
DECLARE
    state regclass;
BEGIN
    FOREACH state IN ARRAY '{inorder_internal.feed_table, inorder_internal.feed, inorder_internal.feed_state,
                             inorder_internal.worker_batch, inorder_internal.counted_table}'::regclass[] LOOP
        EXECUTE format('CREATE TRIGGER leave_out_others BEFORE INSERT ON %s FOR EACH ROW '
                       'WHEN (NOT pg_has_role(''pg_database_owner''::name, ''MEMBER''::text)) '
                       'EXECUTE FUNCTION inorder_internal.leave_out_others()', state);
    END LOOP;
END $$;
