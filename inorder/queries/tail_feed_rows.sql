-- The rows of a feed's unfinished batch.
COPY (SELECT {columns} FROM {inorder}.feed_batch_rows({name}, {batch}, NULL::{row_type}) AS e)
TO STDOUT WITH ({options})
