-- For the database of the source: a table and its feed.
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), body text);
SELECT feed_create('mailer', 'events');
