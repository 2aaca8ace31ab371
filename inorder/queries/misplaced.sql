-- The rows of a table, and how many of them have another place by id than by the age of their transaction.
-- age() is that of the transaction's number: right beyond 2^32, too. Rows of one transaction are in order of id.
SELECT count(*), count(*) FILTER (WHERE by_id <> by_transaction)
FROM (SELECT row_number() OVER (ORDER BY id) AS by_id,
             row_number() OVER (ORDER BY age(xmin) DESC, id) AS by_transaction
      FROM {table}) AS ranked
