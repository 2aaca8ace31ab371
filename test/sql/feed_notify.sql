-- feed_notify: transactions that insert notify a channel. Who is notified when is in test_feed_notify.py.
\set SHOW_CONTEXT never
CREATE ROLE inorder_writer;
CREATE ROLE inorder_other;
CREATE TABLE told (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
GRANT SELECT, INSERT ON told TO inorder_writer;
CREATE VIEW notifying AS
SELECT tgrelid::regclass AS relation, tgname, tgenabled, encode(tgargs, 'escape') AS channel
FROM pg_trigger WHERE tgfoid = 'feed_notify_trigger'::regproc ORDER BY tgrelid::regclass::text;
-- Only once the table is enabled, by its owner, with a channel of 1 to 63 bytes.
SELECT feed_notify('told');
SELECT feed_enable('told');
SELECT feed_notify('told', '');
SELECT feed_notify('told', repeat('é', 32));
SELECT feed_notify('notifying');
SELECT feed_notify(0);
SELECT feed_notify(null);
SET ROLE inorder_writer;
SELECT feed_notify('told');
SELECT feed_unnotify('told');
RESET ROLE;
SELECT * FROM notifying;
-- By default the channel is the name of the table; another call changes it.
SELECT feed_notify('told');
SELECT * FROM notifying;
SELECT feed_notify('told', repeat('é', 31) || '''');
SELECT octet_length(channel), right(channel, 5) FROM notifying;
SELECT feed_notify('told', 'a\b "c"''d');
SELECT * FROM notifying;
SELECT feed_notify('told', 'told');
-- Nothing changes, and nothing is replaced, if it is there already.
SELECT xmin AS made FROM pg_trigger WHERE tgrelid = 'told'::regclass AND tgname = 'inorder_notify' \gset
SELECT feed_notify('told');
SELECT feed_enable('told');
SELECT xmin = :made AS same FROM pg_trigger WHERE tgrelid = 'told'::regclass AND tgname = 'inorder_notify';
-- What another role did to it is undone.
ALTER TABLE told DISABLE TRIGGER inorder_notify;
SELECT feed_notify('told');
SELECT * FROM notifying;
-- The feed reads what was written by a role without other privileges.
SELECT feed_create('f', 'told');
SET ROLE inorder_writer;
INSERT INTO told (n) VALUES (1);
RESET ROLE;
SELECT n FROM feed_read('f', null::told);
-- Such a transaction cannot be prepared; one that inserted no row can.
BEGIN;
INSERT INTO told (n) VALUES (2);
PREPARE TRANSACTION 'told';
BEGIN;
INSERT INTO told (n) SELECT 1 WHERE false;
PREPARE TRANSACTION 'told';
COMMIT PREPARED 'told';
-- Made by hand.
CREATE TRIGGER by_hand AFTER INSERT ON told EXECUTE FUNCTION feed_notify_trigger();
INSERT INTO told (n) VALUES (3);
DROP TRIGGER by_hand ON told;
CREATE TRIGGER by_hand BEFORE INSERT ON told FOR EACH ROW EXECUTE FUNCTION feed_notify_trigger('c');
INSERT INTO told (n) VALUES (3);
-- All triggers of the function are dropped, the guard stays.
SELECT feed_unnotify('told');
SELECT * FROM notifying;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'told'::regclass AND tgname <> 'zz_inorder_delete' ORDER BY 1;
SELECT feed_unnotify('told');
-- Another trigger of this name is not replaced.
CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER inorder_notify AFTER INSERT ON told EXECUTE FUNCTION other();
SELECT feed_notify('told');
SELECT feed_unnotify('told');
SELECT tgname, tgfoid::regproc FROM pg_trigger WHERE tgrelid = 'told'::regclass AND tgname = 'inorder_notify';
DROP TRIGGER inorder_notify ON told;
-- Partitions: those there are; those created later after another call, or after feed_enable.
CREATE TABLE days (id uuid DEFAULT uuid_xact_nextval(), day int) PARTITION BY LIST (day);
CREATE INDEX ON days (id);
CREATE TABLE day_1 PARTITION OF days FOR VALUES IN (1);
CREATE TABLE day_2 PARTITION OF days FOR VALUES IN (2) PARTITION BY LIST (day);
CREATE TABLE day_2_a PARTITION OF day_2 FOR VALUES IN (2);
SELECT feed_enable('days'), feed_notify('days', 'news');
CREATE TABLE day_3 PARTITION OF days FOR VALUES IN (3);
SELECT relation, channel FROM notifying;
SELECT feed_notify('days', 'news');
CREATE TABLE day_4 PARTITION OF days FOR VALUES IN (4);
SELECT feed_enable('days');
SELECT relation, channel FROM notifying;
-- feed_disable reverts everything.
SELECT feed_disable('days');
SELECT * FROM notifying;
SELECT feed_enable('days');
SELECT * FROM notifying;
-- The state of the session does not matter.
SET quote_all_identifiers = on;
SET search_path = pg_temp;
SELECT public.feed_notify('public.days', E'a\\b');
RESET ALL;
SELECT relation, channel FROM notifying;
-- The partitions of another role.
ALTER TABLE day_4 OWNER TO inorder_other;
ALTER TABLE days OWNER TO inorder_writer;
SET ROLE inorder_writer;
SELECT feed_notify('days', 'theirs');
RESET ROLE;
SELECT feed_drop('f');
DROP TABLE told, days;
DROP VIEW notifying;
DROP FUNCTION other();
DROP ROLE inorder_writer, inorder_other;
