-- Positions and batches as text, and as jsonb for drivers that have no composite types.

-- The casts that each composite type has would write the same, but by the server's function for sets of numbers.
CREATE FUNCTION @extschema@.feed_to_text(at_position @extschema@.feed_position)
RETURNS text
AS 'MODULE_PATHNAME', 'written_text' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.feed_to_text(@extschema@.feed_position) IS
'Return a position as text: what its output function returns, but sooner if it has many gaps. The cast '
'position::text calls it.';

CREATE FUNCTION @extschema@.feed_to_text(batch @extschema@.feed_batch)
RETURNS text
AS 'MODULE_PATHNAME', 'written_text' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.feed_to_text(@extschema@.feed_batch) IS
'Return a batch as text: what its output function returns, but sooner if it has many gaps. The cast batch::text calls '
'it.';

CREATE FUNCTION @extschema@.feed_position_of_text(value text)
RETURNS @extschema@.feed_position
AS 'MODULE_PATHNAME', 'text_written' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.feed_position_of_text(text) IS
'Return the position that a text describes, as its input function, but sooner if it has many gaps. The cast '
'value::text::feed_position calls it.
Errors: those of the input functions of its types.';

CREATE FUNCTION @extschema@.feed_batch_of_text(value text)
RETURNS @extschema@.feed_batch
AS 'MODULE_PATHNAME', 'text_written' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.feed_batch_of_text(text) IS
'Return the batch that a text describes, as its input function, but sooner if it has many gaps. The cast '
'value::text::feed_batch calls it.
Errors: those of the input functions of its types.';

-- As the casts of every type from and to text.
CREATE CAST (@extschema@.feed_position AS text) WITH FUNCTION @extschema@.feed_to_text(@extschema@.feed_position)
AS ASSIGNMENT;
COMMENT ON CAST (@extschema@.feed_position AS text) IS
'A position as text.';
CREATE CAST (@extschema@.feed_batch AS text) WITH FUNCTION @extschema@.feed_to_text(@extschema@.feed_batch)
AS ASSIGNMENT;
COMMENT ON CAST (@extschema@.feed_batch AS text) IS
'A batch as text.';
CREATE CAST (text AS @extschema@.feed_position) WITH FUNCTION @extschema@.feed_position_of_text(text);
COMMENT ON CAST (text AS @extschema@.feed_position) IS
'A position from its text.';
CREATE CAST (text AS @extschema@.feed_batch) WITH FUNCTION @extschema@.feed_batch_of_text(text);
COMMENT ON CAST (text AS @extschema@.feed_batch) IS
'A batch from its text.';

-- As jsonb with exactly the attributes of the type: a batch is not taken for a position, nor what a later version
-- writes.

CREATE FUNCTION @extschema@.feed_to_jsonb(at_position @extschema@.feed_position)
RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN to_jsonb(ROW(NULL, (at_position).partial, (at_position).last_key, (at_position).members,
                    (at_position).origin)::@extschema@.feed_position)
    || jsonb_build_object('transactions'::text, inorder_internal.numbers_text((at_position).transactions));
COMMENT ON FUNCTION @extschema@.feed_to_jsonb(@extschema@.feed_position) IS
'Return a position as jsonb: an object with the attributes of feed_position. The cast position::jsonb calls it.';

CREATE FUNCTION @extschema@.feed_to_jsonb(batch @extschema@.feed_batch)
RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN to_jsonb(ROW(NULL, (batch).resumed, (batch).resumed_after, (batch).cut, (batch).cut_after, (batch).members,
                    (batch).origin)::@extschema@.feed_batch)
    || jsonb_build_object('transactions'::text, inorder_internal.numbers_text((batch).transactions));
COMMENT ON FUNCTION @extschema@.feed_to_jsonb(@extschema@.feed_batch) IS
'Return a batch as jsonb: an object with the attributes of feed_batch. The cast batch::jsonb calls it.';

-- The composite value that a jsonb object describes, with the transactions of the given one; an error if it has other
-- keys than attributes.
CREATE FUNCTION inorder_internal.from_jsonb(kind anyelement, value jsonb)
RETURNS anyelement
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (CASE WHEN jsonb_typeof(value) <> 'object' THEN true
             ELSE ARRAY(SELECT jsonb_object_keys(value))
                  <> ARRAY(SELECT jsonb_object_keys(
                               to_jsonb(jsonb_populate_record(kind, '{"transactions": null}')))) END) THEN
        RAISE 'this is not a % as jsonb: %', pg_typeof(kind), left(value::text, 200)
        USING ERRCODE = 'invalid_parameter_value', DETAIL = 'It must be an object as the cast to jsonb writes it.';
    END IF;
    RETURN jsonb_populate_record(kind, value - 'transactions');
END $$;

CREATE FUNCTION @extschema@.feed_position_of(value jsonb)
RETURNS @extschema@.feed_position
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.from_jsonb(
    ROW(inorder_internal.text_numbers(value ->> 'transactions'::text), NULL, NULL, NULL, NULL)
    ::@extschema@.feed_position, value);
COMMENT ON FUNCTION @extschema@.feed_position_of(jsonb) IS
'Return the position that a jsonb value describes, as written by position::jsonb. The cast value::feed_position '
'calls it.
Errors: invalid_parameter_value if the value is not an object with the attributes of feed_position, and the errors of '
'the input functions of its types.';

CREATE FUNCTION @extschema@.feed_batch_of(value jsonb)
RETURNS @extschema@.feed_batch
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.from_jsonb(
    ROW(inorder_internal.text_numbers(value ->> 'transactions'::text), NULL, NULL, NULL, NULL, NULL, NULL)
    ::@extschema@.feed_batch, value);
COMMENT ON FUNCTION @extschema@.feed_batch_of(jsonb) IS
'Return the batch that a jsonb value describes, as written by batch::jsonb. The cast value::feed_batch calls it.
Errors: invalid_parameter_value if the value is not an object with the attributes of feed_batch, and the errors of '
'the input functions of its types.';

CREATE CAST (@extschema@.feed_position AS jsonb) WITH FUNCTION @extschema@.feed_to_jsonb(@extschema@.feed_position);
COMMENT ON CAST (@extschema@.feed_position AS jsonb) IS
'A position as an object, for drivers without composite types.';
CREATE CAST (@extschema@.feed_batch AS jsonb) WITH FUNCTION @extschema@.feed_to_jsonb(@extschema@.feed_batch);
COMMENT ON CAST (@extschema@.feed_batch AS jsonb) IS
'A batch as an object, for drivers without composite types.';
CREATE CAST (jsonb AS @extschema@.feed_position) WITH FUNCTION @extschema@.feed_position_of(jsonb);
COMMENT ON CAST (jsonb AS @extschema@.feed_position) IS
'A position from such an object. Other keys are an error.';
CREATE CAST (jsonb AS @extschema@.feed_batch) WITH FUNCTION @extschema@.feed_batch_of(jsonb);
COMMENT ON CAST (jsonb AS @extschema@.feed_batch) IS
'A batch from such an object. Other keys are an error.';
