-- Positions and batches as text, and as jsonb for drivers that have no composite types.

-- The casts that each composite type has would write the same, but by the server's function for sets of numbers.
CREATE FUNCTION inorder_internal.feed_to_text(at_position @extschema@.feed_position)
RETURNS text
AS 'MODULE_PATHNAME', 'written_text' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION inorder_internal.feed_to_text(batch @extschema@.feed_batch)
RETURNS text
AS 'MODULE_PATHNAME', 'written_text' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION inorder_internal.feed_position_of_text(value text)
RETURNS @extschema@.feed_position
AS 'MODULE_PATHNAME', 'text_written' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION inorder_internal.feed_batch_of_text(value text)
RETURNS @extschema@.feed_batch
AS 'MODULE_PATHNAME', 'text_written' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- As the casts of every type from and to text.
CREATE CAST (@extschema@.feed_position AS text) WITH FUNCTION inorder_internal.feed_to_text(@extschema@.feed_position)
AS ASSIGNMENT;
COMMENT ON CAST (@extschema@.feed_position AS text) IS
'A position as text.';
CREATE CAST (@extschema@.feed_batch AS text) WITH FUNCTION inorder_internal.feed_to_text(@extschema@.feed_batch)
AS ASSIGNMENT;
COMMENT ON CAST (@extschema@.feed_batch AS text) IS
'A batch as text.';
CREATE CAST (text AS @extschema@.feed_position) WITH FUNCTION inorder_internal.feed_position_of_text(text);
COMMENT ON CAST (text AS @extschema@.feed_position) IS
'A position from its text.';
CREATE CAST (text AS @extschema@.feed_batch) WITH FUNCTION inorder_internal.feed_batch_of_text(text);
COMMENT ON CAST (text AS @extschema@.feed_batch) IS
'A batch from its text.';

-- As jsonb, an object with the attributes of the type. From jsonb, an attribute that is missing is null, so that a
-- later version can add one; one that is unknown is an error: a batch is not taken for a position, nor what a later
-- version writes for what this one would make of it.

CREATE FUNCTION inorder_internal.feed_to_jsonb(at_position @extschema@.feed_position)
RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN to_jsonb(ROW(NULL, (at_position).partial, (at_position).last_key, (at_position).members,
                    (at_position).origin)::@extschema@.feed_position)
    || jsonb_build_object('transactions'::text, inorder_internal.numbers_text((at_position).transactions));

CREATE FUNCTION inorder_internal.feed_to_jsonb(batch @extschema@.feed_batch)
RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN to_jsonb(ROW(NULL, (batch).resumed, (batch).resumed_after, (batch).cut, (batch).cut_after, (batch).members,
                    (batch).origin)::@extschema@.feed_batch)
    || jsonb_build_object('transactions'::text, inorder_internal.numbers_text((batch).transactions));

-- The composite value that a jsonb object describes, with the transactions of the given one.
CREATE FUNCTION inorder_internal.from_jsonb(kind anyelement, value jsonb)
RETURNS anyelement
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known text[];
    unknown text;
BEGIN
    IF jsonb_typeof(value) <> 'object' OR value -> 'transactions' IS NULL THEN
        RAISE 'this is not a % as jsonb: %', pg_typeof(kind), left(value::text, 200)
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = 'It must be an object with the member transactions, as the cast to jsonb writes it.';
    END IF;
    known := ARRAY(SELECT jsonb_object_keys(to_jsonb(jsonb_populate_record(kind, '{"transactions": null}'))));
    unknown := (SELECT string_agg(k, ', ' ORDER BY k) FROM jsonb_object_keys(value) AS k WHERE k <> ALL (known));
    IF unknown IS NOT NULL THEN
        RAISE 'a % as jsonb has no member %', pg_typeof(kind), left(unknown, 200)
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = format('Its members are %s. A later version of the extension may write others.',
                              array_to_string(known, ', '));
    END IF;
    RETURN jsonb_populate_record(kind, value - 'transactions');
END $$;

CREATE FUNCTION inorder_internal.feed_position_of(value jsonb)
RETURNS @extschema@.feed_position
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.from_jsonb(
    ROW(inorder_internal.text_numbers(value ->> 'transactions'::text), NULL, NULL, NULL, NULL)
    ::@extschema@.feed_position, value);

CREATE FUNCTION inorder_internal.feed_batch_of(value jsonb)
RETURNS @extschema@.feed_batch
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.from_jsonb(
    ROW(inorder_internal.text_numbers(value ->> 'transactions'::text), NULL, NULL, NULL, NULL, NULL, NULL)
    ::@extschema@.feed_batch, value);

CREATE CAST (@extschema@.feed_position AS jsonb)
WITH FUNCTION inorder_internal.feed_to_jsonb(@extschema@.feed_position);
COMMENT ON CAST (@extschema@.feed_position AS jsonb) IS
'A position as an object, for drivers without composite types.';
CREATE CAST (@extschema@.feed_batch AS jsonb) WITH FUNCTION inorder_internal.feed_to_jsonb(@extschema@.feed_batch);
COMMENT ON CAST (@extschema@.feed_batch AS jsonb) IS
'A batch as an object, for drivers without composite types.';
CREATE CAST (jsonb AS @extschema@.feed_position) WITH FUNCTION inorder_internal.feed_position_of(jsonb);
COMMENT ON CAST (jsonb AS @extschema@.feed_position) IS
'A position from such an object: what is missing is null, what is unknown an error.';
CREATE CAST (jsonb AS @extschema@.feed_batch) WITH FUNCTION inorder_internal.feed_batch_of(jsonb);
COMMENT ON CAST (jsonb AS @extschema@.feed_batch) IS
'A batch from such an object: what is missing is null, what is unknown an error.';
