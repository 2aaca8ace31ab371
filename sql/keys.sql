-- Keys: generators in order, and their readers.
--
-- All are valid RFC 9562 UUIDs in plain uuid columns. No function reads a
-- table or calls another by name, so none depends on search_path.

CREATE FUNCTION @extschema@.uuid_sequence_nextval(
    sequence regclass, block_size int DEFAULT 65536, block_count int DEFAULT 65536
)
RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.uuid_sequence_nextval(regclass, int, int) IS
'Next key by a sequence: a wrapping block number, then random bits (version 8, RFC 9562 section 5.8).
The block number is (nextval / block_size) mod block_count, rounded down, in as many whole bytes as block_count '
'needs: 0 to 4, which leaves 12 bytes or more.
Ranges: block_size and block_count 1 to 2147483647. Needs USAGE on the sequence, as nextval does.
Drop-in for the function of the same name in sequential_uuids 1.0.3.';

CREATE FUNCTION @extschema@.uuid_time_nextval(interval_length int DEFAULT 60, interval_count int DEFAULT 65536)
RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.uuid_time_nextval(int, int) IS
'Next key by the clock: a wrapping block number, then random bits (version 8, RFC 9562 section 5.8).
The block number is (Unix seconds / interval_length) mod interval_count, in as many whole bytes as '
'interval_count needs: 0 to 4, which leaves 12 bytes or more. The defaults wrap after 45.5 days.
Ranges: interval_length, in seconds, and interval_count 1 to 2147483647.
Drop-in for the function of the same name in sequential_uuids 1.0.3.';

CREATE FUNCTION @extschema@.uuid_v7_nextval()
RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION @extschema@.uuid_v7_nextval() IS
'Next version-7 key: 48 bits of Unix milliseconds, 12 bits of their fraction, 62 random bits (RFC 9562 section '
'5.7; fraction by section 6.2, method 3).
Each is greater than the last of the same session, also when the clock steps back: within one tick of 244 ns the '
'random part grows by a random step of up to 2^48.
Range: the clock must show 1970 to 10889.';

CREATE FUNCTION @extschema@.uuid_v7_time(id uuid)
RETURNS timestamptz
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.uuid_v7_time(uuid) IS
'Time of a version-7 key, to the microsecond: the 12 bits after the milliseconds are read as their fraction, as '
'uuid_v7_nextval and the server''s own uuidv7 (18 and later) write it.
A key made elsewhere may hold random bits there; its time is then exact to the millisecond only.
Range: 1970-01-01 to 10889-08-02. A uuid of another version is an error (invalid_parameter_value).';

CREATE FUNCTION @extschema@.uuid_v7_floor(moment timestamptz)
RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.uuid_v7_floor(timestamptz) IS
'Smallest version-7 key whose uuid_v7_time is not before the given moment: a bound for ranges of keys and '
'partitions.
Range: 1970-01-01 00:00:00+00 to 10889-08-02 05:31:50.655999+00; anything else, infinity included, is an error '
'(datetime_field_overflow).';

CREATE FUNCTION @extschema@.uuid_xact_nextval(base bigint DEFAULT 0)
RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.uuid_xact_nextval(bigint) IS
'Next key in the order of transactions: 48 bits of top-level transaction id plus base, then 74 bits that start '
'random in each transaction and grow by a random step of 1 to 2^43 (version 8, RFC 9562 section 5.8).
Keys of one transaction ascend in the order they were made; at least 2^30 fit, then program_limit_exceeded.
Range: base 0 to 281474976710655, and so is the sum. Assigns a transaction id; not on a standby.';

CREATE FUNCTION @extschema@.uuid_xact_id(id uuid)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.uuid_xact_id(uuid) IS
'Transaction number, 0 to 281474976710655, in a key made by uuid_xact_nextval: the inserting transaction''s id '
'(as pg_current_xact_id shows it) plus the base.
A uuid that is not of version 8 is an error (invalid_parameter_value); one of version 8 made by another '
'generator gives a meaningless number.';

CREATE FUNCTION @extschema@.uuid_xact_floor(number bigint)
RETURNS uuid
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.uuid_xact_floor(bigint) IS
'Smallest key with the given transaction number: a bound for ranges of keys.
Range: 0 to 281474976710655 (48 bits); anything else is an error (numeric_value_out_of_range).';

CREATE FUNCTION @extschema@.xact_id(base bigint DEFAULT 0)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.xact_id(bigint) IS
'Number of the current transaction: its top-level 64-bit id, as pg_current_xact_id shows it, plus base. The same '
'number that uuid_xact_nextval puts into keys, as a plain column default.
Range: base 0 to 281474976710655, and so is the sum. Assigns a transaction id; not on a standby.';
