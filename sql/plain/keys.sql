-- Keys with the layouts of src/keys/uuid_layout.h. Strings that represent keys have 32 hexadecimal digits without
-- hyphens.

CREATE FUNCTION inorder_internal.random_bits(amount int) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The first 16 and the last 48 of the 122 random bits of a version-4 uuid.
    id text := gen_random_uuid();
BEGIN
    RETURN concat('x', left(id, 4), right(id, 12))::bit(64)::bigint & ((1::bigint << amount) - 1);
END $$;

-- Raise an error unless a number fits into 48 bits.
CREATE FUNCTION inorder_internal.checked_number(what text, number bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF number NOT BETWEEN 0 AND 281474976710655 THEN
        RAISE '% must be between 0 and 281474976710655, not %', what, number
        USING ERRCODE = 'numeric_value_out_of_range';
    END IF;
    RETURN number;
END $$;

CREATE FUNCTION inorder_internal.say_beyond_base(xact bigint, base bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.checked_number('base', base);
    RAISE 'transaction id % plus base % exceeds 281474976710655', xact, base
    USING ERRCODE = 'numeric_value_out_of_range', DETAIL = 'A key holds 48 bits of transaction number.';
END $$;

CREATE FUNCTION inorder_internal.plus_base(xact bigint, base bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN base >= 0::bigint AND base <= 281474976710655 - xact THEN xact + base
            ELSE inorder_internal.say_beyond_base(xact, base) END;

-- Raise an error unless a uuid has the given version, and the variant of RFC 9562.
CREATE FUNCTION inorder_internal.check_version(id uuid, version int) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF get_byte(uuid_send(id), 6) >> 4 <> version OR get_byte(uuid_send(id), 8) >> 6 <> 2 THEN
        RAISE 'uuid % is not of version %', id, version
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = 'The version is the 13th hexadecimal digit, and the 17th must be 8, 9, a or b (RFC 9562, section '
                       '4).';
    END IF;
END $$;

-- Return a key that consists of a block number and random bits. The block number is (at / size) mod amount.
CREATE FUNCTION inorder_internal.block_key(at bigint, size int, amount int) RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The quotient is rounded down, as in src/keys/uuid_layout.h; SQL rounds it towards 0.
    block bigint := at / size - (at % size < 0)::int;
    digits text := replace(gen_random_uuid()::text, '-', '');
    prefix int := CASE WHEN amount = 1 THEN 0 WHEN amount <= 256 THEN 2 WHEN amount <= 65536 THEN 4
                       WHEN amount <= 16777216 THEN 6 ELSE 8 END;
BEGIN
    -- The version digit replaces the version digit of the random uuid.
    RETURN concat(lpad(to_hex((block % amount + amount) % amount), prefix, '0'), substr(digits, prefix + 1, 12 - prefix),
                  '8', substr(digits, 14))::uuid;
END $$;

CREATE FUNCTION inorder_internal.v7_key(tick bigint, tail bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN concat(lpad(to_hex(tick >> 12), 12, '0'::text), to_hex(28672::bigint | (tick & 4095::bigint)),
              to_hex(tail | '-9223372036854775808'::bigint))::uuid;

CREATE FUNCTION inorder_internal.v7_first_tick(us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN us / 1000 * 4096 + (us % 1000 * 4096 + 999) / 1000;

CREATE FUNCTION inorder_internal.number_above(base bigint) RETURNS bigint
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    RETURN inorder_internal.plus_base(pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8, base);
END $$;

-- Return the first 16 digits of the key that follows when the lowest 62 bits of a key overflow.
CREATE FUNCTION inorder_internal.carried(key text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF substr(key, 13, 4) = '8fff' THEN
        RAISE 'transaction % has used up its keys', pg_current_xact_id()
        USING ERRCODE = 'program_limit_exceeded', DETAIL = 'At least 2^30 keys fit into one transaction.';
    END IF;
    RETURN left(key, 12) || to_hex(('x' || substr(key, 13, 4))::bit(16)::int + 1);
END $$;

-- Return up to eleven keys that follow a key in its transaction, each as 32 digits.
CREATE FUNCTION inorder_internal.keys_after(key text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- Each step takes 43 of these 512 bits. Generating a random uuid takes 1 us. One uuid is therefore the seed of
    -- eleven steps.
    random pg_catalog."bit" := ('x' OPERATOR(pg_catalog.||) pg_catalog.encode(
        pg_catalog.sha512(pg_catalog.uuid_send(pg_catalog.gen_random_uuid())), 'hex'))::pg_catalog."bit"(512);
    top pg_catalog.text := pg_catalog."left"(key, 16);
    -- The lowest 62 bits with the variant, which makes the number negative.
    low pg_catalog.int8 := ('x' OPERATOR(pg_catalog.||) pg_catalog."right"(key, 16))::pg_catalog."bit"(64)::pg_catalog.int8;
    following_keys pg_catalog.text := '';
BEGIN
    FOR step IN 0 .. 10 LOOP
        low := low OPERATOR(pg_catalog.+) pg_catalog."substring"(random, 43 OPERATOR(pg_catalog.*) step OPERATOR(pg_catalog.+) 1, 43
            )::pg_catalog.int8 OPERATOR(pg_catalog.+) 1;
        IF low OPERATOR(pg_catalog.>=) -4611686018427387904 THEN
            EXIT WHEN following_keys OPERATOR(pg_catalog.<>) '';
            top := inorder_internal.carried(top);
            low := low OPERATOR(pg_catalog.-) 4611686018427387904;
        END IF;
        following_keys := following_keys OPERATOR(pg_catalog.||) top OPERATOR(pg_catalog.||) pg_catalog.to_hex(low);
    END LOOP;
    RETURN following_keys;
END $$;

-- Return the next key of this transaction, with base 0, followed by the keys that were generated in advance, each as 32
-- digits.
CREATE FUNCTION inorder_internal.next_keys() RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    number pg_catalog.text := pg_catalog.lpad(pg_catalog.to_hex(inorder_internal.number_above(0)), 12, '0');
    made_keys pg_catalog.text := pg_catalog.current_setting('inorder.keys', true);
BEGIN
    IF pg_catalog.starts_with(pg_catalog."right"(made_keys, -32), number) THEN
        RETURN pg_catalog.set_config('inorder.keys', pg_catalog."right"(made_keys, -32), true);
    ELSIF pg_catalog.starts_with(made_keys, number) THEN
        RETURN pg_catalog.set_config('inorder.keys', inorder_internal.keys_after(pg_catalog."left"(made_keys, 32)), true);
    END IF;
    -- The bits after the version are those of a version-4 uuid, except that the first of them is 0.
    RETURN pg_catalog.set_config('inorder.keys', number OPERATOR(pg_catalog.||) '8' OPERATOR(pg_catalog.||)
        pg_catalog."right"(pg_catalog.encode(pg_catalog.set_bit(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()), 51, 0),
                                             'hex'), 19), true);
END $$;

---- uuid_sequence_nextval: plpgsql keys
DECLARE
    kind "char" := (SELECT c.relkind FROM pg_class AS c WHERE c.oid = sequence);
BEGIN
    IF block_size < 1 THEN
        RAISE 'block_size must be between 1 and 2147483647, not %', block_size USING ERRCODE = 'invalid_parameter_value';
    ELSIF block_count < 1 THEN
        RAISE 'block_count must be between 1 and 2147483647, not %', block_count
        USING ERRCODE = 'invalid_parameter_value';
    ELSIF kind IS NULL THEN
        RAISE 'sequence with OID % does not exist', sequence::oid USING ERRCODE = 'undefined_table';
    ELSIF kind <> 'S' THEN
        RAISE '"%" is not a sequence', (SELECT c.relname FROM pg_class AS c WHERE c.oid = sequence)
        USING ERRCODE = 'wrong_object_type';
    END IF;
    RETURN inorder_internal.block_key(nextval(sequence), block_size, block_count);
END
---- uuid_time_nextval: plpgsql keys
BEGIN
    IF interval_length < 1 THEN
        RAISE 'interval_length must be between 1 and 2147483647, not %', interval_length
        USING ERRCODE = 'invalid_parameter_value';
    ELSIF interval_count < 1 THEN
        RAISE 'interval_count must be between 1 and 2147483647, not %', interval_count
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN inorder_internal.block_key(floor(extract(epoch FROM clock_timestamp()))::bigint, interval_length,
                                      interval_count);
END
---- uuid_v7_nextval: plpgsql keys
DECLARE
    -- The last key of this session: its tick, a space, and its tail.
    last_key text := current_setting('inorder.last_v7', true);
    last_tick bigint := coalesce(nullif(split_part(last_key, ' ', 1), ''), '0')::bigint;
    -- A float8 is exact to the microsecond until 2255, and five times as fast as numeric.
    tick bigint := inorder_internal.v7_first_tick((date_part('epoch', clock_timestamp()) * 1000000)::bigint);
    tail bigint;
BEGIN
    IF tick > last_tick THEN
        tail := inorder_internal.random_bits(62);
    ELSE
        tick := last_tick;
        tail := split_part(last_key, ' ', 2)::bigint + inorder_internal.random_bits(48) + 1;
        IF tail >= 4611686018427387904 THEN
            tick := tick + 1;
            tail := inorder_internal.random_bits(62);
        END IF;
    END IF;
    PERFORM set_config('inorder.last_v7', concat(tick, ' ', tail), false);
    RETURN inorder_internal.v7_key(tick, tail);
END
---- uuid_v7_time: plpgsql keys
DECLARE
    digits text := replace(id::text, '-', '');
    ms bigint := ('x' || left(digits, 12))::bit(48)::bigint;
    fraction int := ('x' || substr(digits, 14, 3))::bit(12)::int;
BEGIN
    PERFORM inorder_internal.check_version(id, 7);
    -- The interval consists of whole hours and a remainder, because a number of seconds would be rounded.
    RETURN '1970-01-01 00:00:00+00'::timestamptz + make_interval(hours => (ms / 3600000)::int)
        + (ms % 3600000) * interval '1 millisecond' + (fraction * 1000 / 4096) * interval '1 microsecond';
END
---- uuid_v7_floor: plpgsql keys
BEGIN
    IF NOT isfinite(moment) OR moment < '1970-01-01 00:00:00+00' OR moment > '10889-08-02 05:31:50.655999+00' THEN
        RAISE 'timestamp % is outside the range of version-7 UUIDs', moment USING ERRCODE = 'datetime_field_overflow',
              DETAIL = 'Version-7 UUIDs hold 1970-01-01 00:00:00+00 to 10889-08-02 05:31:50.655999+00.';
    END IF;
    RETURN inorder_internal.v7_key(inorder_internal.v7_first_tick(
        (extract(epoch FROM moment) * 1000000)::bigint), 0);
END
---- uuid_xact_nextval: plpgsql bare
DECLARE
    -- The setting contains the last key of this transaction, with base 0, and the following keys, which are generated
    -- eleven at a time. The setting is empty in each new transaction, unless a user has set it. A key is therefore used
    -- only if it has the number of the transaction.
    following_keys pg_catalog.text := pg_catalog."right"(pg_catalog.current_setting('inorder.keys', true), -32);
BEGIN
    IF base OPERATOR(pg_catalog.<>) 0 THEN
        RETURN (pg_catalog.lpad(pg_catalog.to_hex(inorder_internal.number_above(base)), 12, '0')
                OPERATOR(pg_catalog.||) pg_catalog.substr(inorder_internal.next_keys(), 13, 20))::pg_catalog.uuid;
    ELSIF pg_catalog.starts_with(following_keys, pg_catalog."right"(pg_catalog.encode(pg_catalog.xid8send(
                                             pg_catalog.pg_current_xact_id()), 'hex'), 12)) THEN
        RETURN pg_catalog."left"(pg_catalog.set_config('inorder.keys', following_keys, true), 32)::pg_catalog.uuid;
    END IF;
    RETURN pg_catalog."left"(inorder_internal.next_keys(), 32)::pg_catalog.uuid;
END
---- uuid_xact_id: plpgsql keys
BEGIN
    PERFORM inorder_internal.check_version(id, 8);
    RETURN concat('x', left(replace(id::text, '-', ''), 12))::bit(48)::bigint;
END
---- uuid_xact_floor: plpgsql keys
BEGIN
    RETURN concat(lpad(to_hex(inorder_internal.checked_number('transaction number', number)), 12, '0'),
                  '80008000000000000000')::uuid;
END
---- xact_id: plpgsql bare
BEGIN
    -- A SQL function would be inlined, which takes 8 us for each statement that is not prepared.
    IF base OPERATOR(pg_catalog.=) 0
       AND pg_catalog.pg_current_xact_id() OPERATOR(pg_catalog.<=) '281474976710655'::pg_catalog.xid8 THEN
        RETURN pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8;
    END IF;
    RETURN inorder_internal.number_above(base);
END
