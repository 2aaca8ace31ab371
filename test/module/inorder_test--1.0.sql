CREATE FUNCTION test_pool_wiped(words int) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_pool_wiped(int) IS 'Draws random words; returns how many of them are still in the pool.';

CREATE FUNCTION test_fork_repeats(words int) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_fork_repeats(int) IS 'Forks as the postmaster does; returns how many words both parent and child draw.';

CREATE FUNCTION test_clone_repeats(age bigint) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_clone_repeats(bigint) IS 'Returns how many words are drawn from a pool that was filled this number of microseconds ago.';

CREATE FUNCTION test_v7(seconds bigint, nanoseconds int) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_v7(bigint, int) IS 'Returns the next version-7 key of a session whose clock shows this time.';

CREATE FUNCTION test_v1(ticks bigint) RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_v1(bigint) IS 'Returns the next version-1 value of a session whose clock shows this number of ticks since 1582.';

CREATE FUNCTION test_xact_capacity(most bigint) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_xact_capacity(bigint) IS 'Returns how many keys, at most this number, a transaction with the highest start and the largest steps can generate.';

CREATE FUNCTION test_hold_commit(path text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION test_hold_commit(text) IS 'Lets the commit of this transaction wait, after snapshots see it, until the file is removed.';
