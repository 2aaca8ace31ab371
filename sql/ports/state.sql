-- The state of the extension, and the privileges on it.
--
-- Except in a restore, only the functions of the extension write here: they check the caller's privileges, then write
-- as the owner of these tables (state.c). For pg_dump and pg_restore, the installer and the owner of the database may
-- read and insert rows. Rows that these two roles insert are checked at each use, and their contents are never
-- executed.

-- A role, by OID and name on the server that stored it. On another server both the OID and the name must match. After
-- a restore, this role is therefore not confused with another role.
CREATE TYPE inorder_internal.role_ref AS (id oid, name name);

-- Trigger on the state: skips restored rows of tables that do not exist.
CREATE FUNCTION inorder_internal.leave_out_missing() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.relation <> 0::oid THEN
        RETURN NEW;
    END IF;
    RAISE WARNING 'skipping a row of %: its table does not exist', TG_RELID::regclass
    USING HINT = 'pg_dump includes the state of all tables, even of those that are not dumped.';
    RETURN NULL;
END $$;

-- Trigger on feed_state: refuses a second state of a feed, which the primary key (feed, seq) would allow.
CREATE FUNCTION inorder_internal.refuse_second_state() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM inorder_internal.feed_state AS s WHERE s.feed = NEW.feed) THEN
        RAISE 'feed % already has a state', NEW.feed USING ERRCODE = 'unique_violation';
    END IF;
    RETURN NEW;
END $$;

-- Used in generated columns of the state: true if the extension writes the row. COPY and INSERT by other programs, such
-- as pg_restore, store false, because their rows come from another time or server. If an update script of the extension
-- updated the column that is passed as the argument, the result would be false, as for a restored row.
CREATE FUNCTION inorder_internal.is_written_here(content anyelement) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL UNSAFE;

CREATE TABLE inorder_internal.feed_table (
    relation inorder_internal.table_ref PRIMARY KEY,
    key_column name NOT NULL,  -- column with the transaction number: a uuid by uuid_xact_nextval(), or a bigint
    is_uuid boolean NOT NULL,
    is_generated boolean NOT NULL,
    -- Columns that distinguish rows of one transaction, in order; if there are none, transactions are read as a whole
    order_columns name[] NOT NULL CHECK (array_position(order_columns, NULL) IS NULL),
    -- Number that is added to transaction ids, 0 to 281474976710655
    base bigint NOT NULL CHECK (base BETWEEN 0 AND 281474976710655),
    is_partial boolean NOT NULL,  -- true if the index on the number leaves out rows with number 0
    -- The condition for the rows of a share, if the description is used to read one share of a table; null in stored
    -- rows
    share_condition text CHECK (share_condition IS NULL),
    -- True if feed_enable() or feed_rebase() wrote the base on this server. Otherwise the row was restored, and the
    -- table can be neither read nor written until feed_rebase() is called
    written_here boolean GENERATED ALWAYS AS (inorder_internal.is_written_here(base)) STORED,
    -- Schema and name of the table when it was enabled. If another table gets this name later, that table is not read
    known_as name[],
    CHECK (NOT is_uuid OR order_columns = ARRAY[key_column])
);
COMMENT ON TABLE inorder_internal.feed_table IS 'Tables made readable by feed_enable(), one row per table.';

-- The division of a feed among workers: the name and number of the column, the hash function of its type, the number of
-- shares, and a value that identifies the hash function of this server (see new_share_key()).
CREATE TYPE inorder_internal.share_key AS (
    column_name text, attnum smallint, kind text, shares int, fingerprint text
);

CREATE TABLE inorder_internal.feed (
    id bigint PRIMARY KEY CHECK (id BETWEEN 1 AND 4294967295),  -- object id of the feed's lock
    name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
    owner oid NOT NULL,  -- role that created the feed: see role_ref
    owner_name name NOT NULL,  -- name of that role when the feed last moved
    system text NOT NULL,  -- system identifier of the server that stored these roles
    movers inorder_internal.role_ref[] NOT NULL DEFAULT '{}',  -- roles to which feed_grant() has granted the feed
    relation inorder_internal.table_ref NOT NULL,
    whole_transactions boolean NOT NULL DEFAULT false,  -- true if batches end only at the end of a transaction
    -- Column by which workers divide the feed; null if the feed is not divided: see shares.sql
    shared_by inorder_internal.share_key
        CHECK (shared_by IS NULL OR ((shared_by).shares >= 1 AND (shared_by).shares <= 1024 AND (shared_by).attnum >= 0
                                     AND (shared_by).kind IN ('int8', 'text', 'uuid')
                                     AND (shared_by).column_name <> '' AND (shared_by).fingerprint <> '') IS TRUE),
    -- The time must be finite, because the view "feeds" shows the difference to the current time. Before PostgreSQL
    -- 17, the difference to an infinite time is an error.
    created timestamptz NOT NULL DEFAULT now() CHECK (isfinite(created)),
    UNIQUE (name, owner, system)
);
CREATE INDEX ON inorder_internal.feed (relation);
COMMENT ON TABLE inorder_internal.feed IS 'Feeds that feed_create() created; the view feeds shows them.';

-- Return true if a feed can have this state. The checks are in a single function, because the server parses and
-- prepares the expressions of CHECK constraints for each statement. In a read of 500 rows, which takes 700 us, a dozen
-- constraints took 50 us.
CREATE FUNCTION inorder_internal.is_state(
    seq bigint, p @extschema@.feed_position, batch bigint, VARIADIC times timestamptz[]
) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN seq >= 0 AND batch BETWEEN 0 AND 9007199254740991
        AND ('infinity' = ANY (times)) IS NOT TRUE AND ('-infinity' = ANY (times)) IS NOT TRUE
        AND inorder_internal.are_numbers(p.transactions) IS TRUE
        AND (p.partial BETWEEN 0 AND 281474976710655 AND NOT p.transactions @> p.partial) IS NOT FALSE
        AND inorder_internal.is_place(p);
END $$;

-- If a row is updated while an older transaction is open, all versions of the row remain in the table until that
-- transaction ends. The columns that change with each batch are therefore in a separate row. The newest version of this
-- row is found using the primary key, the highest seq first, without reading all versions. When a page is full of
-- versions, seq is increased, so that the index entry of these versions is no longer visited. There is no other unique
-- index, because each new entry of such an index would be compared with all versions.
CREATE TABLE inorder_internal.feed_state (
    feed bigint NOT NULL,
    seq bigint NOT NULL DEFAULT 0,  -- increases when the row has moved to another page: see next_seq()
    page bigint,  -- page that the row was in when it was last updated
    relation inorder_internal.table_ref NOT NULL,
    position @extschema@.feed_position NOT NULL,
    batch bigint NOT NULL DEFAULT 0,  -- number of the last batch, or first_number() of a new feed: see next_number()
    -- Server and timeline on which the number in "batch" was assigned; null if the state was restored
    batch_origin text,
    -- Lower bound of the numbers of unfinished batches that are not dead; null if no batch was given to a worker
    first_batch bigint,
    places bigint[],  -- for a divided feed: element n + 1 is a lower bound of the places of batches of share n
    moved timestamptz,  -- when the position last moved
    polled timestamptz,  -- last recorded time at which a reader asked for rows
    -- Last recorded time at which a reader asked for rows and got all committed rows
    caught_up_at timestamptz,
    -- True if the extension wrote the position on this server. Otherwise the row was restored, and the feed cannot move
    -- until feed_rebase() or feed_seek() is called
    written_here boolean GENERATED ALWAYS AS (inorder_internal.is_written_here("position")) STORED,
    CHECK (inorder_internal.is_state(seq, "position", batch, moved, polled, caught_up_at)),
    PRIMARY KEY (feed, seq) WITH (deduplicate_items = off)
) WITH (fillfactor = 50);
-- If the table had statistics, the planner would read all versions with a bitmap scan when there are few rows in many
-- pages, for example after a long transaction.
ALTER TABLE inorder_internal.feed_state ALTER feed SET STATISTICS 0, ALTER seq SET STATISTICS 0;
COMMENT ON TABLE inorder_internal.feed_state IS 'State of feeds that changes with each batch, one row per feed.';

CREATE TABLE inorder_internal.worker_batch (
    feed bigint NOT NULL,
    -- Number of the batch; while the batch is open, its place, which is negative
    number bigint NOT NULL CHECK (number <> 0),
    relation inorder_internal.table_ref NOT NULL,
    batch @extschema@.feed_batch NOT NULL
        CHECK (((batch).transactions <@ '{[0,281474976710656)}') IS TRUE AND NOT isempty((batch).transactions)),
    -- Worker to which the batch was given; null if no worker has the batch
    worker text CHECK (char_length(worker) BETWEEN 1 AND 200),
    -- Number that the worker must pass to finish the batch; changes whenever the batch is given to a worker
    token bigint,
    taken xid8,  -- transaction that gave the batch to that worker
    tries int NOT NULL DEFAULT 0 CHECK (tries >= 0),  -- number of tries: see given()
    tried timestamptz,  -- end of the first lease of the last try
    max_tries int CHECK (max_tries > 0),  -- number of tries after which the batch is dead; null for no limit
    -- Time from which the batch may be given to another worker or, if no worker has it, to any worker; -infinity means
    -- immediately. The current time is not stored, because after the clock was set back, a later batch would be given
    -- out before this batch.
    lease_end timestamptz NOT NULL,
    reason text CHECK (char_length(reason) <= 2000),  -- reason given to the last feed_fail_batch()
    failed timestamptz,  -- time of the last feed_fail_batch()
    dead_since timestamptz,  -- when the batch became dead; null if it is not dead
    -- Share of the feed to which the rows belong; null if the feed is not divided: see shares.sql
    share int CHECK (share BETWEEN 0 AND 1023),
    place bigint,  -- determines the order of the batches of a share; does not change when the batch gets its number
    page bigint,  -- page that the row was in when rows were last added: see add_part()
    rows bigint CHECK (rows > 0),  -- number of rows; null if the feed is not divided
    -- True if rows may still be added, because the batch was not yet given to a worker
    is_open boolean NOT NULL GENERATED ALWAYS AS (number < 0) STORED,
    -- True if the extension wrote the batch on this server. Restored batches are ignored until feed_rebase() has
    -- accepted their feed
    written_here boolean GENERATED ALWAYS AS (inorder_internal.is_written_here(batch)) STORED,
    -- Feed and share in one column, by which the batches of a share are found. If the index on the share began with the
    -- column feed, as the primary key does, the planner might choose the wrong index of the two, depending on their
    -- sizes at the last VACUUM.
    feed_share bigint GENERATED ALWAYS AS (feed * 1024 + share) STORED,
    CHECK ((place IS NULL) = (share IS NULL)),
    PRIMARY KEY (feed, number)
) WITH (fillfactor = 50);
CREATE INDEX ON inorder_internal.worker_batch (feed, number) WHERE dead_since IS NULL;
CREATE INDEX ON inorder_internal.worker_batch (feed) WHERE dead_since IS NOT NULL;
CREATE INDEX ON inorder_internal.worker_batch (feed_share, place) WHERE feed_share IS NOT NULL;
ALTER TABLE inorder_internal.worker_batch ALTER feed SET STATISTICS 0, ALTER feed_share SET STATISTICS 0,
    ALTER place SET STATISTICS 0, ALTER number SET STATISTICS 0;  -- as in feed_state
COMMENT ON TABLE inorder_internal.worker_batch IS
'Unfinished batches of workers, which the position of the feed includes; the view feed_batches shows them.';

CREATE TABLE inorder_internal.share_worker (
    feed bigint NOT NULL,
    share int NOT NULL,
    seq bigint NOT NULL DEFAULT 0,  -- as in feed_state
    page bigint,
    relation inorder_internal.table_ref NOT NULL,
    worker text NOT NULL,
    turn bigint NOT NULL,  -- number of the feed's last batch when the worker got the share
    PRIMARY KEY (feed, share, seq) WITH (deduplicate_items = off)
) WITH (fillfactor = 50);
ALTER TABLE inorder_internal.share_worker ALTER feed SET STATISTICS 0, ALTER share SET STATISTICS 0,
    ALTER seq SET STATISTICS 0;
COMMENT ON TABLE inorder_internal.share_worker IS
'Worker that last had a share, for affinity; not dumped, since no guarantee depends on it.';

CREATE TABLE inorder_internal.counted_table (
    relation inorder_internal.table_ref PRIMARY KEY
);
COMMENT ON TABLE inorder_internal.counted_table IS 'Tables for which exact_count_start() was called.';

-- Only a fold inserts or updates rows of this table.
CREATE TABLE inorder_internal.count_part (
    relation regclass NOT NULL,  -- table that has an exact count
    part regclass NOT NULL,  -- the same table, or a partition that holds rows
    -- Identifies the server and the files of the table. The number is not valid for other files, as after a restore,
    -- TRUNCATE or VACUUM FULL, or after the partition was attached again
    storage text NOT NULL,
    -- Transactions whose rows are included in the number
    counted int8multirange NOT NULL CHECK (counted <@ '{[0,281474976710656)}'),
    rows bigint NOT NULL CHECK (rows >= 0),  -- number of rows of these transactions
    folded timestamptz NOT NULL,
    PRIMARY KEY (relation, part)
) WITH (fillfactor = 50);
COMMENT ON TABLE inorder_internal.count_part IS
'Stored numbers of exact counts, one row per table or partition; not dumped, since they are valid for the files of one '
'server.';

CREATE TABLE inorder_internal.upgrade_mark (id int PRIMARY KEY REFERENCES inorder_internal.upgrade_mark);
COMMENT ON TABLE inorder_internal.upgrade_mark IS
'Empty table whose foreign key pg_upgrade creates after all tables, partitions and triggers: see are_upgraded().';

-- A set of 10,000 ranges takes 210 kB. The default compression reduces the set to 73 kB in 50 ms, and lz4 reduces it
-- to 90 kB in 1 ms.
DO $$
BEGIN
    IF 'lz4' = ANY ((SELECT s.enumvals FROM pg_settings AS s WHERE s.name = 'default_toast_compression')::text[]) THEN
        ALTER TABLE inorder_internal.feed_state ALTER COLUMN position SET COMPRESSION lz4;
        ALTER TABLE inorder_internal.count_part ALTER COLUMN counted SET COMPRESSION lz4;
    ELSE
        ALTER TABLE inorder_internal.feed_state ALTER COLUMN position SET STORAGE external;
        ALTER TABLE inorder_internal.count_part ALTER COLUMN counted SET STORAGE external;
    END IF;
END $$;

CREATE TRIGGER leave_out_missing BEFORE INSERT ON inorder_internal.feed_table
FOR EACH ROW EXECUTE FUNCTION inorder_internal.leave_out_missing();
ALTER TABLE inorder_internal.feed_table ENABLE ALWAYS TRIGGER leave_out_missing;
CREATE TRIGGER leave_out_missing BEFORE INSERT ON inorder_internal.feed
FOR EACH ROW EXECUTE FUNCTION inorder_internal.leave_out_missing();
ALTER TABLE inorder_internal.feed ENABLE ALWAYS TRIGGER leave_out_missing;
CREATE TRIGGER leave_out_missing BEFORE INSERT ON inorder_internal.feed_state
FOR EACH ROW EXECUTE FUNCTION inorder_internal.leave_out_missing();
ALTER TABLE inorder_internal.feed_state ENABLE ALWAYS TRIGGER leave_out_missing;
CREATE TRIGGER leave_out_missing BEFORE INSERT ON inorder_internal.worker_batch
FOR EACH ROW EXECUTE FUNCTION inorder_internal.leave_out_missing();
ALTER TABLE inorder_internal.worker_batch ENABLE ALWAYS TRIGGER leave_out_missing;
CREATE TRIGGER leave_out_missing BEFORE INSERT ON inorder_internal.counted_table
FOR EACH ROW EXECUTE FUNCTION inorder_internal.leave_out_missing();
ALTER TABLE inorder_internal.counted_table ENABLE ALWAYS TRIGGER leave_out_missing;
CREATE TRIGGER refuse_second_state BEFORE INSERT ON inorder_internal.feed_state
FOR EACH ROW EXECUTE FUNCTION inorder_internal.refuse_second_state();
ALTER TABLE inorder_internal.feed_state ENABLE ALWAYS TRIGGER refuse_second_state;

-- Privileges

CREATE FUNCTION inorder_internal.is_right(id oid, name name, system text) RETURNS boolean
LANGUAGE sql STABLE
-- The name is compared first, because the SQL edition reads a file to get the system identifier.
RETURN pg_get_userbyid(id) = name OR system = inorder_internal.server_system();

CREATE FUNCTION inorder_internal.is_role(caller oid, id oid, name name, system text) RETURNS boolean
LANGUAGE sql STABLE
RETURN inorder_internal.is_right(id, name, system) AND pg_has_role(caller, id, 'USAGE'::text);

CREATE FUNCTION inorder_internal.owns(caller oid, relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;

-- Return true if the caller has SELECT on a table and USAGE on its schema.
CREATE FUNCTION inorder_internal.may_read(caller oid, relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT;

-- Return true if the caller may move a feed: as the owner of the feed or of its table, or as a role to which
-- feed_grant() has granted the feed.
CREATE FUNCTION inorder_internal.may_move(caller oid, f inorder_internal.feed) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE;

-- Return true if the caller may see a feed: as a role that may move the feed or read its table, or as a member of
-- pg_monitor.
CREATE FUNCTION inorder_internal.may_see(caller oid, f inorder_internal.feed) RETURNS boolean
LANGUAGE sql STABLE
RETURN inorder_internal.may_move(caller, f) OR inorder_internal.may_read(caller, (f).relation)
    OR pg_has_role(caller, 'pg_monitor'::name, 'USAGE'::text);

-- Raise an error unless the table exists.
CREATE FUNCTION inorder_internal.check_exists(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF relation IS NULL THEN
        RAISE 'relation must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF has_table_privilege(relation, 'SELECT') IS NULL THEN
        RAISE 'table with OID % does not exist', relation::oid USING ERRCODE = 'undefined_table';
    END IF;
END $$;

-- Error (insufficient_privilege) unless the caller owns the table.
CREATE FUNCTION inorder_internal.check_owner(caller oid, relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.owns(caller, relation) THEN
        RETURN;
    END IF;
    PERFORM inorder_internal.check_exists(relation);
    RAISE 'must be owner of table %', relation USING ERRCODE = 'insufficient_privilege';
END $$;

-- Error (insufficient_privilege) unless the caller may read the table.
CREATE FUNCTION inorder_internal.check_reader(caller oid, relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF inorder_internal.may_read(caller, relation) THEN
        RETURN;
    END IF;
    PERFORM inorder_internal.check_exists(relation);
    RAISE 'permission denied for table %', relation USING ERRCODE = 'insufficient_privilege',
          DETAIL = 'Reading the table needs SELECT on the whole table and USAGE on its schema.';
END $$;

-- Return the newest version of the state of a feed.
CREATE FUNCTION inorder_internal.state_of(feed bigint) RETURNS inorder_internal.feed_state
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT s FROM inorder_internal.feed_state AS s WHERE s.feed = state_of.feed ORDER BY s.seq DESC LIMIT 1);
END $$;

-- Return the page of a row.
CREATE FUNCTION inorder_internal.page_of(place tid) RETURNS bigint
LANGUAGE sql STABLE
RETURN (place::text::point)[0]::bigint;

-- Return the seq of the next version of a row. If the row has moved to another page since the last update, this seq is
-- higher than the current seq.
CREATE FUNCTION inorder_internal.next_seq(seq bigint, page bigint, place tid) RETURNS bigint
LANGUAGE sql STABLE
RETURN seq + CASE WHEN page = inorder_internal.page_of(place) THEN 0 ELSE 1 END;

-- Return true if a feed has unfinished batches, dead batches included.
CREATE FUNCTION inorder_internal.has_unfinished(feed bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM inorder_internal.worker_batch AS b WHERE b.feed = has_unfinished.feed);
END $$;

-- Return a function call for a HINT. The call names the feed if the table has only one feed, and if the session's user
-- is a member of the role that owns it: other readers of the table must not learn the name.
CREATE FUNCTION inorder_internal.feed_call(relation regclass, function text, arguments text DEFAULT '') RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT format('%s(%s%s)', function, CASE
                WHEN count(*) = 1 AND bool_and(pg_has_role(session_user, f.owner, 'MEMBER'))
                THEN quote_literal(min(f.name)) ELSE 'name' END, arguments)
            FROM inorder_internal.feed AS f WHERE f.relation = feed_call.relation);
END $$;

CREATE FUNCTION inorder_internal.seek_call(relation regclass, argument text DEFAULT '''here''') RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN inorder_internal.feed_call(relation, 'feed_seek', ', ' || argument);
END $$;

-- Delete a feed with its state.
CREATE FUNCTION inorder_internal.forget_feed(feed bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM inorder_internal.feed_state AS s WHERE s.feed = forget_feed.feed;
    DELETE FROM inorder_internal.feed AS f WHERE f.id = forget_feed.feed;
END $$;

-- Delete the state of dropped tables. A feed with unfinished batches stays until its owner drops it.
CREATE FUNCTION inorder_internal.sweep() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    dropped_feed bigint;
BEGIN
    -- Rows that another session is deleting are skipped. In REPEATABLE READ and SERIALIZABLE no rows are deleted,
    -- because a row that was deleted since the snapshot was taken would cause an error.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    FOR dropped_feed IN SELECT f.id FROM inorder_internal.feed AS f
                WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = f.relation)
                  AND NOT inorder_internal.has_unfinished(f.id) FOR UPDATE SKIP LOCKED LOOP
        PERFORM inorder_internal.forget_feed(dropped_feed);
    END LOOP;
    DELETE FROM inorder_internal.share_worker WHERE (feed, share) IN (
        SELECT w.feed, w.share FROM inorder_internal.share_worker AS w
        WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = w.relation) FOR UPDATE SKIP LOCKED);
    DELETE FROM inorder_internal.feed_table WHERE relation IN (
        SELECT t.relation FROM inorder_internal.feed_table AS t
        WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.relation) FOR UPDATE SKIP LOCKED);
    DELETE FROM inorder_internal.counted_table WHERE relation IN (
        SELECT t.relation FROM inorder_internal.counted_table AS t
        WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.relation) FOR UPDATE SKIP LOCKED);
    DELETE FROM inorder_internal.count_part WHERE (relation, part) IN (
        SELECT p.relation, p.part FROM inorder_internal.count_part AS p
        WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = p.relation) FOR UPDATE SKIP LOCKED);
END $$;
