CREATE FUNCTION test_pool_wiped(words int) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_pool_wiped(int) IS 'Draw words; how many of those handed out are still in the pool.';

CREATE FUNCTION test_fork_repeats(words int) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_fork_repeats(int) IS 'Fork as the postmaster does; how many words parent and child both draw.';

CREATE FUNCTION test_clone_repeats(age bigint) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_clone_repeats(bigint) IS 'How many words of a pool that was filled this number of microseconds ago are drawn.';

CREATE FUNCTION test_v7(seconds bigint, nanoseconds int) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_v7(bigint, int) IS 'Next version-7 key of a session whose clock shows this.';

CREATE FUNCTION test_v1(ticks bigint) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_v1(bigint) IS 'Next version-1 value of a session whose clock shows this number of ticks since 1582.';

CREATE FUNCTION test_xact_capacity(most bigint) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_xact_capacity(bigint) IS 'Keys of one transaction that starts highest and takes the largest steps, but not more than asked.';

CREATE FUNCTION test_hold_commit(path text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_hold_commit(text) IS 'The commit of this transaction, once snapshots see it, waits until a file is gone.';
