-- A feed belongs to a role, by its oid: another role of that name does not have it; nor, after a restore, another one of
-- that oid.
-- feed_enable() warns of rows that were deleted or updated, of which statistics know some time later.
SET track_counts = off;
CREATE ROLE inorder_a;
CREATE ROLE "inorder 'B"" %s";
CREATE ROLE inorder_mover;
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_enable('events');
INSERT INTO events (n) SELECT generate_series(1, 9);
GRANT SELECT ON events TO PUBLIC;
-- Two of one name, which stand where their owners left them.
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
-- Granted to a role that its movers are members of.
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

-- A mover that is dropped and made anew is another, and so is one that has another's name.
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
-- Another that takes the old name does not get them.
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
-- A member of the owner owns them, and makes those of his own.
SET ROLE "inorder 'B"" %s";
SELECT n FROM feed_read('f', null::events, 1, 'inorder_a');
SELECT n FROM feed_read('f', null::events, 1);
RESET ROLE;
-- Dropped, the role leaves feeds that nobody has, which keep the table in use. The owner of the table may drop them, by the oid of the role.
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
-- Nor does the owner of the table give them to the role that has the name now, other than after a restore.
SELECT feed_rebase('events') IS NOT NULL AS rebased;
SET ROLE inorder_a;
SELECT error_of($$SELECT feed_read('f', null::events)$$);
RESET ROLE;
-- For a dump from another server it does. A role that has made another feed of that name in the meantime keeps that
-- one, and gets the old one when it is gone.
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
-- Without their table they are shown, until the next call that forgets them.
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
