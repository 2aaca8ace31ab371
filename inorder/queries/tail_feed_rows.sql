-- The rows of a feed's unfinished batch. Their type is that of the table. If its name has become that of a domain, this
-- evaluates no condition of it, as NULL::domain does.
{inorder}.feed_batch_rows({name}::pg_catalog.text, {batch}::pg_catalog.int8,
                          (NULL::{table}[])[1], {owner}::pg_catalog.oid::pg_catalog.regrole)
