-- One transaction of a writer. The number of the writer determines how long the transaction is open.
\set pause random(1, 10)
\if :client_id = 0
  -- 1 to 2 s
  \set half random(500, 1000)
  BEGIN;
  INSERT INTO inorder_lab.events DEFAULT VALUES;
  \sleep :half ms
  INSERT INTO inorder_lab.events DEFAULT VALUES;
  \sleep :half ms
  COMMIT;
\elif :client_id % 4 = 1
  -- 50 to 500 ms; the row inserted after the savepoint is rolled back
  \set half random(25, 250)
  BEGIN;
  INSERT INTO inorder_lab.events DEFAULT VALUES;
  \sleep :half ms
  SAVEPOINT here;
  INSERT INTO inorder_lab.events DEFAULT VALUES;
  ROLLBACK TO SAVEPOINT here;
  INSERT INTO inorder_lab.events DEFAULT VALUES;
  \sleep :half ms
  COMMIT;
\else
  -- Short transactions: of ten, eight insert one row, one inserts twenty rows, and one is rolled back
  \set sort random(1, 10)
  \if :sort <= 8
    INSERT INTO inorder_lab.events DEFAULT VALUES;
  \elif :sort = 9
    INSERT INTO inorder_lab.events SELECT FROM generate_series(1, 20);
  \else
    BEGIN;
    INSERT INTO inorder_lab.events DEFAULT VALUES;
    ROLLBACK;
  \endif
\endif
\sleep :pause ms
