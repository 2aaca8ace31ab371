-- Nobody changes the columns of a table until the transaction ends.
LOCK TABLE ONLY {table} IN ACCESS SHARE MODE
