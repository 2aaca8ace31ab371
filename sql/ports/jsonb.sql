-- Casts of positions and batches to jsonb and to text. Readers store positions and batches in these forms.
--
-- The members of an object are the attributes of the type. A later version may add an attribute. Objects that an
-- earlier version has stored lack such an attribute, and have an older format. Missing members are therefore null.
-- Unknown members are an error, because otherwise a batch could be read as a position, or an object of a later version
-- could be misread. The server's text form of a composite type has no names, and would fit only one version.

CREATE FUNCTION inorder_internal.feed_to_jsonb(at_position @extschema@.feed_position) RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN to_jsonb(at_position);

CREATE FUNCTION inorder_internal.feed_to_jsonb(batch @extschema@.feed_batch) RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN to_jsonb(batch);

-- Convert an object to a position or batch, in the format that this version writes. "nothing" is a null value of the
-- result type. A later version will convert objects of older formats here.
CREATE FUNCTION inorder_internal.of_jsonb(nothing anyelement, value jsonb, known_format int) RETURNS anyelement
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written jsonb;
    path jsonpath;
    known_members jsonb;
    unknown_members text;
BEGIN
    IF jsonb_typeof(value) <> 'object' OR value -> 'transactions' IS NULL THEN
        RAISE 'invalid jsonb value for type %: %', pg_typeof(nothing), left(value::text, 200)
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = 'The value must be an object as the cast to jsonb writes it, with the member "transactions".';
    END IF;
    written := to_jsonb(jsonb_populate_record(nothing, value));
    -- Nested objects also have members.
    FOREACH path IN ARRAY '{$, $.ordering, $.members[*]}'::jsonpath[] LOOP
        known_members := jsonb_path_query_first(written, path);
        unknown_members := (
            SELECT string_agg(DISTINCT m.name, ', ') FROM jsonb_path_query(value, path) AS o(object)
            CROSS JOIN LATERAL jsonb_object_keys(
                CASE jsonb_typeof(o.object) WHEN 'object' THEN o.object ELSE '{}' END) AS m(name)
            WHERE known_members ? m.name IS NOT TRUE);
        EXIT WHEN unknown_members IS NOT NULL;
    END LOOP;
    IF unknown_members IS NOT NULL THEN
        RAISE 'a % has no member %', pg_typeof(nothing), left(unknown_members, 200)
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = format('The object has format %s, and this version of inorder reads formats up to %s.',
                              coalesce(left(value ->> 'format', 200), 'null'), known_format);
    ELSIF (written ->> 'format')::int NOT BETWEEN 1 AND known_format THEN
        RAISE 'this version of inorder does not read format % of a %', written ->> 'format', pg_typeof(nothing)
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = format('Formats up to %s can be read. A later version may write other formats.', known_format);
    END IF;
    RETURN jsonb_populate_record(nothing, value || jsonb_build_object('format', known_format));
END $$;

CREATE FUNCTION inorder_internal.feed_position_of(value jsonb) RETURNS @extschema@.feed_position
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.of_jsonb(NULL::@extschema@.feed_position, value, inorder_internal.position_format());

CREATE FUNCTION inorder_internal.feed_batch_of(value jsonb) RETURNS @extschema@.feed_batch
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.of_jsonb(NULL::@extschema@.feed_batch, value, inorder_internal.position_format());

CREATE FUNCTION inorder_internal.feed_to_text(at_position @extschema@.feed_position) RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.feed_to_jsonb(at_position)::text;

CREATE FUNCTION inorder_internal.feed_to_text(batch @extschema@.feed_batch) RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.feed_to_jsonb(batch)::text;

CREATE FUNCTION inorder_internal.feed_position_of(value text) RETURNS @extschema@.feed_position
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.feed_position_of(value::jsonb);

CREATE FUNCTION inorder_internal.feed_batch_of(value text) RETURNS @extschema@.feed_batch
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN inorder_internal.feed_batch_of(value::jsonb);

-- The cast to text is an assignment cast, as for every type.
CREATE CAST (@extschema@.feed_position AS text) WITH FUNCTION inorder_internal.feed_to_text(@extschema@.feed_position)
AS ASSIGNMENT;
COMMENT ON CAST (@extschema@.feed_position AS text) IS 'A position as the text of a JSON object.';
CREATE CAST (@extschema@.feed_batch AS text) WITH FUNCTION inorder_internal.feed_to_text(@extschema@.feed_batch)
AS ASSIGNMENT;
COMMENT ON CAST (@extschema@.feed_batch AS text) IS 'A batch as the text of a JSON object.';
CREATE CAST (text AS @extschema@.feed_position) WITH FUNCTION inorder_internal.feed_position_of(text);
COMMENT ON CAST (text AS @extschema@.feed_position) IS 'A position from the text of a JSON object.';
CREATE CAST (text AS @extschema@.feed_batch) WITH FUNCTION inorder_internal.feed_batch_of(text);
COMMENT ON CAST (text AS @extschema@.feed_batch) IS 'A batch from the text of a JSON object.';
CREATE CAST (@extschema@.feed_position AS jsonb)
WITH FUNCTION inorder_internal.feed_to_jsonb(@extschema@.feed_position);
COMMENT ON CAST (@extschema@.feed_position AS jsonb) IS
'A position as a JSON object, the form in which readers store it.';
CREATE CAST (@extschema@.feed_batch AS jsonb) WITH FUNCTION inorder_internal.feed_to_jsonb(@extschema@.feed_batch);
COMMENT ON CAST (@extschema@.feed_batch AS jsonb) IS
'A batch as a JSON object, the form in which readers store it.';
CREATE CAST (jsonb AS @extschema@.feed_position) WITH FUNCTION inorder_internal.feed_position_of(jsonb);
COMMENT ON CAST (jsonb AS @extschema@.feed_position) IS
'A position from a JSON object: missing members are null, unknown members are an error.';
CREATE CAST (jsonb AS @extschema@.feed_batch) WITH FUNCTION inorder_internal.feed_batch_of(jsonb);
COMMENT ON CAST (jsonb AS @extschema@.feed_batch) IS
'A batch from a JSON object: missing members are null, unknown members are an error.';

-- Positions and batches in the state

-- Convert positions and batches of older formats to the current format. If are_written is true, the rows that the
-- extension wrote on this server are converted, otherwise the restored rows.
CREATE FUNCTION inorder_internal.rewrite_state(caller oid, are_written boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE inorder_internal.worker_batch AS b
    SET batch = inorder_internal.feed_batch_of(inorder_internal.feed_to_jsonb(b.batch))
    WHERE b.written_here IS TRUE = are_written AND (b.batch).format < inorder_internal.position_format();
    UPDATE inorder_internal.feed_state AS s
    SET position = inorder_internal.feed_position_of(inorder_internal.feed_to_jsonb(s.position))
    WHERE s.written_here IS TRUE = are_written AND (s.position).format < inorder_internal.position_format();
END $$;

CREATE FUNCTION inorder_internal.rewrite_state(are_written boolean) RETURNS void
AS 'MODULE_PATHNAME', 'as_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Convert the whole state. The update script of a version that writes another format calls this function. The column
-- written_here of each row keeps its value.
CREATE FUNCTION inorder_internal.rewrite_positions() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inorder_internal.rewrite_state(true), inorder_internal.rewrite_state(NULL::oid, false);
END $$;
