-- The function that texts call in place of feed_is_table(): nobody else can create one next to it that matches better.
-- A session would keep a compiled copy of a PL/pgSQL function for each row type, that is for each partition that it has
-- met.
CREATE FUNCTION inorder_internal.feed_is_table(row_of anyelement, row_type oid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN pg_catalog.oideq(pg_catalog.pg_typeof(row_of), row_type) THEN true
                ELSE inorder_internal.say_other_table(pg_catalog.pg_typeof(row_of)) END
$$;

