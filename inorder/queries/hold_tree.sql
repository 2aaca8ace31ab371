-- Nobody changes the columns of a table, or the files of its partitions, until the transaction ends, whose snapshot comes
-- after that.
LOCK TABLE {table} IN ACCESS SHARE MODE
