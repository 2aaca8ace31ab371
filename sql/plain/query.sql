-- What the texts call in the place of feed_is_table(): nobody else can put a function beside it that matches better.
-- Not in PL/pgSQL, of which a session keeps a compiled copy for each row type: for each partition that it has met.
CREATE FUNCTION inorder_internal.feed_is_table(row_of anyelement, row_type oid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN pg_catalog.oideq(pg_catalog.pg_typeof(row_of), row_type) THEN true
                ELSE inorder_internal.say_other_table(pg_catalog.pg_typeof(row_of)) END
$$;

