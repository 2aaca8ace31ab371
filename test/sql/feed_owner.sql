-- The owner of a feed is identified by the OID of the role. Another role with the same name does not own the feed.
-- After a restore, another role with the same OID does not own the feed either. track_counts is off, because
-- feed_enable() would otherwise warn about deleted and updated rows in some runs.
SET track_counts = off;
CREATE ROLE inorder_a;
CREATE ROLE "inorder 'B"" %s";
CREATE ROLE inorder_mover;
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_enable('events');
INSERT INTO events (n) SELECT generate_series(1, 9);
GRANT SELECT ON events TO PUBLIC;
-- Two feeds with the same name, but different owners, have independent positions.
SET ROLE inorder_a;
SELECT feed_create('f', 'events');
SELECT n FROM feed_read('f', null::events, 2);
SET ROLE "inorder 'B"" %s";
SELECT feed_create('f', 'events');
SELECT n FROM feed_read('f', null::events, 1);
SELECT feed_grant('f', 'inorder_mover'), feed_grant('f', 'inorder_mover');
SET ROLE inorder_mover;
SELECT error_of($$SELECT feed_read('f', null::events)$$), error_of($$SELECT feed_read('f', null::events, owner => 'inorder_a')$$);
SELECT n FROM feed_read('f', null::events, 1, '"inorder ''B"" %s"');
SELECT name, CASE WHEN owner ~ '^[0-9]+$' THEN 'an oid' ELSE owner END AS owner FROM feeds ORDER BY 2, 1;
\set SHOW_CONTEXT never
SELECT feed_seek('f', 'now');
SELECT error_of($$SELECT feed_read('f', null::events, owner => 'inorder_none')$$);
SELECT feed_read('f', null::events, owner => 4294967295::oid::regrole);
RESET ROLE;
SELECT f.name, f.owner = r.oid AS oid, f.owner_name, (SELECT array_agg(m.name) FROM unnest(f.movers) AS m) AS movers
FROM inorder_internal.feed AS f JOIN pg_roles AS r ON rolname = owner_name ORDER BY owner_name;
-- Members of a role to which a feed was granted may move the feed.
CREATE ROLE inorder_team ROLE inorder_mover;
SELECT feed_grant('f', 'inorder_team', 'inorder_a');
SET ROLE inorder_mover;
SELECT n FROM feed_read('f', null::events, 1, 'inorder_a');
SELECT error_of($$SELECT feed_grant('f', 'inorder_mover', 'inorder_a')$$), error_of($$SELECT feed_revoke('f', 'inorder_team', 'inorder_a')$$);
RESET ROLE;
SELECT feed_revoke('f', 'inorder_mover', 'inorder_a');
SET ROLE inorder_mover;
SELECT n FROM feed_read('f', null::events, 1, 'inorder_a');
RESET ROLE;
SELECT feed_revoke('f', 'inorder_team', 'inorder_a');
SET ROLE inorder_mover;
SELECT error_of($$SELECT feed_read('f', null::events, owner => 'inorder_a')$$);
RESET ROLE;
SELECT error_of($$SELECT feed_grant('f', 4294967295::oid::regrole, 'inorder_a')$$), error_of($$SELECT feed_grant('f', NULL, 'inorder_a')$$),
       error_of($$SELECT feed_revoke('f', NULL, 'inorder_a')$$), error_of($$SELECT feed_grant('none', 'inorder_a')$$);
-- A feed cannot be granted to PUBLIC.
SELECT error_of($$SELECT feed_grant('f', 'public', 'inorder_a')$$);

-- A role that is dropped and created again loses the grant. A role that is renamed keeps it.
GRANT inorder_a TO "inorder 'B"" %s";
SELECT feed_grant('f', 'inorder_team', 'inorder_a'), feed_grant('f', 'inorder_mover', 'inorder_a');
DROP ROLE inorder_team;
CREATE ROLE inorder_team ROLE inorder_mover;
SELECT feed_revoke('f', 'inorder_mover', 'inorder_a');
SET ROLE inorder_mover;
SELECT error_of($$SELECT feed_read('f', null::events, owner => 'inorder_a')$$);
RESET ROLE;
SELECT movers AS forgotten FROM inorder_internal.feed WHERE owner_name = 'inorder_a';
SELECT feed_grant('f', 'inorder_team', 'inorder_a');
ALTER ROLE inorder_team RENAME TO inorder_crew;
SET ROLE inorder_mover;
SELECT n FROM feed_read('f', null::events, 1, 'inorder_a');
RESET ROLE;
ALTER ROLE inorder_crew RENAME TO inorder_team;

-- An owner that is renamed keeps its feeds.
ALTER ROLE inorder_a RENAME TO inorder_c;
SELECT name, owner FROM feeds ORDER BY owner;
SET ROLE inorder_c;
SELECT error_of($$SELECT feed_create('f', 'events')$$);
-- Another role that takes the old name does not get these feeds.
RESET ROLE;
CREATE ROLE inorder_a;
GRANT SELECT ON events TO inorder_a;
SET ROLE inorder_a;
SELECT error_of($$SELECT feed_read('f', null::events)$$);
SELECT feed_create('f', 'events', 'now');
SELECT feed_drop('f');
RESET ROLE;
DROP OWNED BY inorder_a;
DROP ROLE inorder_a;
ALTER ROLE inorder_c RENAME TO inorder_a;
SET ROLE inorder_a;
SELECT n FROM feed_read('f', null::events, 1);
-- A member of the owner can move the owner's feeds, and can have its own feeds.
SET ROLE "inorder 'B"" %s";
SELECT n FROM feed_read('f', null::events, 1, 'inorder_a');
SELECT n FROM feed_read('f', null::events, 1);
RESET ROLE;
-- A dropped role leaves feeds without an owner, which keep the table in use. The owner of the table may drop these
-- feeds with the OID of the role.
SET ROLE inorder_a;
SELECT feed_create('g', 'events');
RESET ROLE;
DROP ROLE inorder_a;
SELECT name, CASE WHEN owner ~ '^[0-9]+$' THEN 'an oid' ELSE owner END AS owner FROM feeds ORDER BY 2, 1;
SELECT error_of($$SELECT feed_drop('f', 'inorder_a')$$);
SELECT feed_drop(name, owner::text::regrole) FROM feeds WHERE name = 'g';
SELECT regexp_replace(error_of($$SELECT feed_disable('events')$$), ' of "[0-9]+"', ' of an oid') AS error_of;
CREATE ROLE inorder_a;
SELECT error_of($$SELECT feed_drop('f', 'inorder_a')$$);
SET ROLE inorder_a;
SELECT error_of($$SELECT feed_read('f', null::events)$$);
RESET ROLE;
-- feed_rebase() does not give these feeds to the role that now has the name, except after a restore.
SELECT feed_rebase('events') IS NOT NULL AS rebased;
SET ROLE inorder_a;
SELECT error_of($$SELECT feed_read('f', null::events)$$);
RESET ROLE;
-- For a dump from another server, feed_rebase() gives feeds to roles by name. A role that has created another feed of
-- that name in the meantime keeps its feed, and gets the restored feed after its own is dropped.
SET ROLE inorder_a;
SELECT feed_create('f', 'events', 'now');
RESET ROLE;
ALTER TABLE inorder_internal.feed DISABLE TRIGGER USER;
UPDATE inorder_internal.feed SET system = 'another' WHERE owner_name = 'inorder_a' AND owner <> 'inorder_a'::regrole;
ALTER TABLE inorder_internal.feed ENABLE TRIGGER USER;
SELECT feed_rebase('events') IS NOT NULL AS rebased;
SELECT name, CASE WHEN owner ~ '^[0-9]+$' THEN 'an oid' ELSE owner END AS owner FROM feeds ORDER BY 2, 1;
INSERT INTO events (n) VALUES (10);
SET ROLE inorder_a;
SELECT n FROM feed_read('f', null::events);
SELECT feed_drop('f');
RESET ROLE;
SELECT feed_rebase('events') IS NOT NULL AS rebased;
SET ROLE inorder_a;
SELECT n FROM feed_read('f', null::events);
RESET ROLE;
-- Feeds of a dropped table are shown until the next call deletes them.
DROP TABLE events;
SELECT name, relation FROM feeds ORDER BY name;
SET ROLE inorder_a;
SELECT error_of($$SELECT feed_read('f', null::pg_class)$$);
RESET ROLE;
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_enable('events');
SELECT count(*) AS left_over FROM inorder_internal.feed;
SELECT feed_disable('events');
DROP TABLE events;
DROP ROLE inorder_a, "inorder 'B"" %s", inorder_mover, inorder_team;
