-- tail_again: Return the query for the rows in a batch that the reader stored, and the select list for these rows.
SELECT {inorder}.reader_batch_query(t.relation, b), t.columns
FROM ({columns}) AS t
CROSS JOIN CAST({batch}::pg_catalog.jsonb AS {inorder}.feed_batch) AS b

-- tail_batch: Return the batch after a position, the position after the batch, the query for its rows, and the select
-- list for these rows. There is no row if no transaction has ended.
SELECT b::pg_catalog.jsonb, a::pg_catalog.jsonb, {inorder}.reader_batch_query(t.relation, b), t.columns
FROM ({columns}) AS t
CROSS JOIN CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
CROSS JOIN LATERAL {inorder}.reader_next_batch(t.relation, p, {max_rows}::pg_catalog.int4, {whole}::pg_catalog.bool) AS b
CROSS JOIN LATERAL {inorder}.reader_advance(p, b) AS a
WHERE NOT pg_catalog.isempty(b.transactions)

-- tail_changes: Return the columns of tail_batch for the changes of a table after a position in the log, and true if
-- the batch has all transactions that have ended. The query raises an error if the log may lack changes, even if there
-- is no batch.
SELECT b::pg_catalog.jsonb, a::pg_catalog.jsonb, q.text, t.columns,
       a.transactions OPERATOR(pg_catalog.@>) latest.transactions
FROM ({columns}) AS t
CROSS JOIN CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
CROSS JOIN LATERAL {inorder}.reader_next_batch({log}::pg_catalog.oid::pg_catalog.regclass, p,
                                              {max_rows}::pg_catalog.int4, {whole}::pg_catalog.bool) AS b
CROSS JOIN LATERAL {inorder}.reader_changes_query(t.relation, p, b) AS q(text)
CROSS JOIN LATERAL {inorder}.reader_advance(p, b) AS a
CROSS JOIN {inorder}.reader_start({log}::pg_catalog.oid::pg_catalog.regclass, 'now'::pg_catalog.text,
                                  NULL::pg_catalog.name) AS latest
WHERE CASE WHEN q.text IS NOT NULL THEN NOT pg_catalog.isempty(b.transactions) END

-- tail_changes_again: Return the query for the changes in a batch that the reader stored, and the select list for these
-- changes.
SELECT {inorder}.reader_changes_query(t.relation, {after}::pg_catalog.jsonb::{inorder}.feed_position, b), t.columns
FROM ({columns}) AS t
CROSS JOIN CAST({batch}::pg_catalog.jsonb AS {inorder}.feed_batch) AS b

-- tail_ended: Return the transactions that have ended on a node.
SELECT {inorder}.ended_transactions('0'::pg_catalog.int8)::pg_catalog.text

-- tail_feed: Return the table of a feed, the OID of the feed's owner, true if a batch may lack some of the transactions
-- that have ended, and true if no other session tails the feed. A session that tails a feed holds an advisory lock,
-- which the server releases when the session ends. Because any role can take this lock, it counts only if it is held by
-- this role, or by a member of the role that owns the feed or the table.
SELECT c.oid, nspname, relname, pg_catalog.format('%I.%I', nspname, relname), pg_catalog.current_database(), r.oid,
       order_column IS NOT NULL OR partition_by IS NOT NULL, pg_catalog.pg_try_advisory_lock(k.key) OR NOT EXISTS (
           SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
           WHERE l.locktype = 'advisory' AND l.granted AND l.database = a.datid AND a.datname = pg_catalog.current_database()
             AND (l.classid::pg_catalog.int8 << 32 | l.objid::pg_catalog.int8) = k.key AND l.objsubid = 1
             AND (a.usename = SESSION_USER OR pg_catalog.pg_has_role(a.usesysid, r.oid, 'USAGE')
                  OR pg_catalog.pg_has_role(a.usesysid, relowner, 'USAGE')))
FROM {inorder}.feeds JOIN pg_catalog.pg_roles r ON rolname = owner
JOIN pg_catalog.pg_class c ON c.oid = relation JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
CROSS JOIN LATERAL pg_catalog.hashtextextended(
    pg_catalog.concat_ws(' ', 'inorder tail', r.oid, name), 0::pg_catalog.int8) AS k(key)
WHERE name = {name}::pg_catalog.text AND owner = coalesce({owner}::pg_catalog.name, CURRENT_USER)

-- feed_names: Return the feeds that this role can see.
SELECT name FROM {inorder}.feeds ORDER BY name LIMIT 10000

-- tail_feed_batch: Return the number and token of the unfinished batch that inorder tail has, or of the next batch.
SELECT number, token
FROM {inorder}.feed_take_batch({name}::pg_catalog.text, 'inorder tail'::pg_catalog.text, {max_rows}::pg_catalog.int4,
                               '1 hour'::pg_catalog.interval, NULL::pg_catalog.int4,
                               {owner}::pg_catalog.oid::pg_catalog.regrole)

-- tail_feed_finish: Finish the batch that tail_feed_batch returned.
SELECT {inorder}.feed_finish_batch({name}::pg_catalog.text, {batch}::pg_catalog.int8, {token}::pg_catalog.int8,
                                   {owner}::pg_catalog.oid::pg_catalog.regrole)

-- tail_feed_rows: Return the rows of a feed's unfinished batch, in the row type of the table. The name of the table may
-- meanwhile be the name of a domain. The element of an empty array evaluates no constraint of the domain, but
-- NULL::domain would.
{inorder_text}.feed_batch_rows({name}::pg_catalog.text, {batch}::pg_catalog.int8,
                               (NULL::{table}[])[1], {owner}::pg_catalog.oid::pg_catalog.regrole)

-- tail_feed_wait: Wait at most a second until a feed has rows.
SELECT {inorder}.feed_wait({name}::pg_catalog.text, '1 second'::pg_catalog.interval,
                           {owner}::pg_catalog.oid::pg_catalog.regrole)

-- tail_json: Return the expression that converts the rows of a table to JSON, if this transaction has locked the table.
-- A value whose type is not built in, or contains such a type, becomes the text from its output function, because
-- row_to_json() would call a cast that the owner of the type has created. Rows of changes begin with the columns op and
-- version, whose names are made distinct from those of the table.
WITH RECURSIVE part AS (
    SELECT a.attnum, a.attname, a.atttypid AS type, true AS is_whole
    FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid = {table}::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT p.attnum, p.attname, w.type, p.is_whole AND t.typtype = 'd'
    FROM part AS p JOIN pg_catalog.pg_type AS t ON t.oid = p.type
    CROSS JOIN LATERAL (
        VALUES (t.typbasetype), (t.typelem)
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute AS a
                  WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) AS w(type)
), before AS (
    SELECT pg_catalog.string_agg(pg_catalog.concat('e.', w.name, pg_catalog.repeat('_', (
               SELECT pg_catalog.min(n) FROM pg_catalog.generate_series(0, 1600) AS n
               WHERE pg_catalog.concat(w.name, pg_catalog.repeat('_', n)) NOT IN (SELECT p.attname FROM part AS p))),
               ', '), '' ORDER BY place) AS columns
    FROM pg_catalog.unnest('{{op,version}}'::pg_catalog.text[]) WITH ORDINALITY AS w(name, place)
    WHERE {of_changes}
), known AS (
    SELECT p.*, t.typtype, t.typdelim,
           t.typsubscript = 'pg_catalog.array_subscript_handler'::pg_catalog.regproc AS is_array
    FROM part AS p JOIN pg_catalog.pg_type AS t ON t.oid = p.type
), written AS (
    SELECT attnum, pg_catalog.quote_ident(attname) AS name,
           pg_catalog.bool_or(type >= 16384::pg_catalog.oid AND typtype NOT IN ('c', 'd') AND NOT is_array) AS is_text,
           pg_catalog.bool_or(is_whole AND is_array AND typdelim = ',') AS is_list,
           pg_catalog.bool_or(type = 'pg_catalog.json'::pg_catalog.regtype) AS may_have_line_ends
    FROM known GROUP BY attnum, attname
)
SELECT {table}::pg_catalog.oid::pg_catalog.regclass AS relation,
       pg_catalog.format(
           CASE WHEN pg_catalog.bool_or(may_have_line_ends AND NOT is_text)
                -- Line ends become spaces. For text without line ends, replace() allocates no memory. translate() would
                -- allocate four times the length.
                THEN 'pg_catalog.replace(pg_catalog.replace(%s::pg_catalog.text, pg_catalog.chr(10), '' ''), '
                     'pg_catalog.chr(13), '' '')'
                ELSE '%s::pg_catalog.text' END,
           CASE WHEN pg_catalog.bool_or(is_text)
                THEN pg_catalog.format('(SELECT pg_catalog.row_to_json(j.*) FROM (SELECT %s%s) AS j)',
                    (SELECT b.columns FROM before AS b), pg_catalog.string_agg(pg_catalog.format(
                        CASE WHEN is_text THEN 'CASE WHEN pg_catalog.num_nulls(e.%1$s) OPERATOR(pg_catalog.=) 0 '
                                               'THEN pg_catalog.format(''%%s'', e.%1$s)%2$s END AS %1$s'
                             ELSE 'e.%1$s' END,
                        name, CASE WHEN is_list THEN '::pg_catalog.text[]' END), ', ' ORDER BY attnum))
                ELSE 'pg_catalog.row_to_json(e.*)' END) AS columns
FROM written
-- There is no row if this transaction has not locked the table, because the name led to another table.
HAVING EXISTS (SELECT FROM pg_catalog.pg_locks AS l
               WHERE l.relation = {table}::pg_catalog.oid AND l.pid = pg_catalog.pg_backend_pid() AND l.granted)

-- tail_kept: Return true if the server reads a stored position and a stored batch as they were written, except for
-- additions of a later version, and true if the stored position after the batch is the position to which the batch
-- leads.
SELECT p::pg_catalog.jsonb OPERATOR(pg_catalog.@>)
           (pg_catalog.jsonb_strip_nulls({position}::pg_catalog.jsonb) OPERATOR(pg_catalog.-) 'format'::pg_catalog.text)
       AND coalesce(b::pg_catalog.jsonb OPERATOR(pg_catalog.@>)
           (pg_catalog.jsonb_strip_nulls({batch}::pg_catalog.jsonb) OPERATOR(pg_catalog.-) 'format'::pg_catalog.text), true),
       CASE WHEN {batch}::pg_catalog.jsonb IS NULL THEN true
            ELSE {inorder}.reader_advance(p, b)::pg_catalog.jsonb OPERATOR(pg_catalog.@>)
           (pg_catalog.jsonb_strip_nulls({after}::pg_catalog.jsonb) OPERATOR(pg_catalog.-) 'format'::pg_catalog.text) END
FROM CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
CROSS JOIN CAST({batch}::pg_catalog.jsonb AS {inorder}.feed_batch) AS b

-- tail_rows: Copy the rows of a query to the client, in any COPY format.
COPY (SELECT {columns} FROM {rows} AS e) TO STDOUT WITH ({options})

-- tail_wait: Wait at most a second until there are rows after a position.
SELECT {inorder}.reader_wait({table}::pg_catalog.oid::pg_catalog.regclass, p, '1 second'::pg_catalog.interval)
FROM CAST({position}::pg_catalog.jsonb AS {inorder}.feed_position) AS p
