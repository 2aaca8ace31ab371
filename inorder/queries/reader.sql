-- reader_backlog: Return the number of transactions that have ended since a position, and the number of their rows,
-- counted up to 10,000.
SELECT b.transactions, b.rows
FROM {inorder}.reader_backlog({table}::pg_catalog.oid::pg_catalog.regclass,
                            {position}::pg_catalog.jsonb::{inorder}.feed_position) AS b

-- reader_changes: Return the query for the changes in a batch that the reader stored, with the position after the
-- batch.
SELECT {inorder}.reader_changes_query({table}::pg_catalog.oid::pg_catalog.regclass,
                                      {after}::pg_catalog.jsonb::{inorder}.feed_position,
                                      {batch}::pg_catalog.jsonb::{inorder}.feed_batch)

-- reader_changes_next: Raise an error if the log may lack changes of the table after a position.
SELECT {inorder}.reader_changes_query(
    {table}::pg_catalog.oid::pg_catalog.regclass,
    {position}::pg_catalog.jsonb::{inorder}.feed_position,
    {inorder}.reader_next_batch({log}::pg_catalog.oid::pg_catalog.regclass,
                                {position}::pg_catalog.jsonb::{inorder}.feed_position, NULL::pg_catalog.int4,
                                false)) IS NOT NULL

-- reader_columns: Return the columns of a table: name; type in SQL syntax; name of the type, or of a domain's base
-- type, if it is built in; type modifier; name of the element type, if it is built in; true if the primary key contains
-- the column; true for an array; the labels of an enum, or of an array of enums; the attributes of a composite type.
WITH RECURSIVE c AS (
    SELECT a.attnum, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) AS written, t.oid, a.atttypmod AS typmod
    FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid OPERATOR(pg_catalog.=) a.atttypid
    WHERE a.attrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND a.attnum OPERATOR(pg_catalog.>) 0
      AND NOT a.attisdropped
    UNION ALL
    SELECT c.attnum, c.attname, c.written, t.typbasetype, t.typtypmod
    FROM c JOIN pg_catalog.pg_type AS t ON t.oid OPERATOR(pg_catalog.=) c.oid
    WHERE t.typtype OPERATOR(pg_catalog.=) 'd'
)
SELECT c.attname::pg_catalog.text, c.written,
       CASE WHEN t.typnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
            THEN t.typname::pg_catalog.text END,
       c.typmod,
       CASE WHEN e.typnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
            THEN e.typname::pg_catalog.text END,
       EXISTS (SELECT FROM pg_catalog.pg_index AS i
               WHERE i.indrelid OPERATOR(pg_catalog.=) {table}::pg_catalog.oid AND i.indisprimary
                 AND c.attnum OPERATOR(pg_catalog.=) ANY (
                     (i.indkey::pg_catalog.int2[])[0:i.indnkeyatts OPERATOR(pg_catalog.-) '1'::pg_catalog.int2])),
       e.oid IS NOT NULL,
       (SELECT pg_catalog.json_agg(l.enumlabel::pg_catalog.text ORDER BY l.enumsortorder)::pg_catalog.text
        FROM pg_catalog.pg_enum AS l WHERE l.enumtypid OPERATOR(pg_catalog.=) coalesce(e.oid, t.oid)),
       (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                   a.attname::pg_catalog.text, pg_catalog.format_type(a.atttypid, a.atttypmod),
                   CASE WHEN f.typnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
                        THEN f.typname::pg_catalog.text END, a.atttypmod) ORDER BY a.attnum)::pg_catalog.text
        FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS f ON f.oid OPERATOR(pg_catalog.=) a.atttypid
        WHERE a.attrelid OPERATOR(pg_catalog.=) t.typrelid AND a.attnum OPERATOR(pg_catalog.>) 0
          AND NOT a.attisdropped)
FROM c JOIN pg_catalog.pg_type AS t ON t.oid OPERATOR(pg_catalog.=) c.oid
LEFT JOIN pg_catalog.pg_type AS e ON e.typarray OPERATOR(pg_catalog.=) t.oid
WHERE t.typtype OPERATOR(pg_catalog.<>) 'd'
ORDER BY c.attnum

-- reader_has_rows: Wait for rows after a position. Return true as soon as there are rows, or false at the end of the
-- wait.
SELECT {inorder}.reader_wait({table}::pg_catalog.oid::pg_catalog.regclass,
                                 {position}::pg_catalog.jsonb::{inorder}.feed_position, {wait}::pg_catalog.interval)

-- reader_next: Return the position after the next batch, or null if no transaction has ended.
SELECT CASE WHEN NOT pg_catalog.isempty(b.transactions)
            THEN {inorder}.reader_advance(p, b)::pg_catalog.jsonb::pg_catalog.text END
FROM CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
CROSS JOIN LATERAL {inorder}.reader_next_batch({table}::pg_catalog.oid::pg_catalog.regclass, p,
                                              {max_rows}::pg_catalog.int4, {whole}::pg_catalog.bool) AS b

-- reader_next_until: Return the position after the next batch of transactions that had ended at the position "until",
-- or null if there is no such batch. Transactions that have ended between the positions "until" and "latest" are
-- treated as read. The batch must have the same snapshot as "latest".
SELECT CASE WHEN NOT pg_catalog.isempty(b.transactions)
            THEN {inorder}.reader_advance(p, b)::pg_catalog.jsonb::pg_catalog.text END
FROM CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
CROSS JOIN CAST({until}::pg_catalog.jsonb AS {inorder}.feed_position) AS u
CROSS JOIN {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, 'now'::pg_catalog.text,
                                  NULL::pg_catalog.name) AS latest
CROSS JOIN LATERAL {inorder}.reader_next_batch(
    {table}::pg_catalog.oid::pg_catalog.regclass,
    pg_catalog.jsonb_set(
        pg_catalog.jsonb_set(p::pg_catalog.jsonb, ARRAY['members'::pg_catalog.text],
                             latest::pg_catalog.jsonb OPERATOR(pg_catalog.->) 'members'::pg_catalog.text),
        ARRAY['transactions'::pg_catalog.text],
        pg_catalog.format('"%s"'::pg_catalog.text, p.transactions OPERATOR(pg_catalog.+)
            (latest.transactions OPERATOR(pg_catalog.-) u.transactions))::pg_catalog.jsonb)::{inorder}.feed_position,
    {max_rows}::pg_catalog.int4, {whole}::pg_catalog.bool) AS b

-- reader_parts: Return the parts of the batch between two positions, and the WAL position that a standby must have
-- replayed before a part can be read there.
SELECT part::pg_catalog.jsonb::pg_catalog.text,
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
            ELSE pg_catalog.pg_current_wal_flush_lsn() END::pg_catalog.text
FROM {inorder}.reader_batch_between({start}::pg_catalog.jsonb::{inorder}.feed_position,
                                  {until}::pg_catalog.jsonb::{inorder}.feed_position) AS w
CROSS JOIN LATERAL {inorder}.reader_split({table}::pg_catalog.oid::pg_catalog.regclass, w,
                                        {parts}::pg_catalog.int4) AS part
WHERE NOT pg_catalog.isempty(part.transactions)

-- reader_rows: Return the query for the rows in a batch that the reader stored.
SELECT {inorder}.reader_batch_query({table}::pg_catalog.oid::pg_catalog.regclass,
                                 {batch}::pg_catalog.jsonb::{inorder}.feed_batch)

-- reader_seek: Adapt a stored position to the current state of the table, and return it as JSON.
SELECT {inorder}.reader_seek({table}::pg_catalog.oid::pg_catalog.regclass,
                           {position}::pg_catalog.jsonb::{inorder}.feed_position)::pg_catalog.jsonb::pg_catalog.text

-- reader_start: Return the position at which a reader begins, as JSON.
SELECT {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass, {start}::pg_catalog.text,
                            {order_by}::pg_catalog.name)::pg_catalog.jsonb::pg_catalog.text
