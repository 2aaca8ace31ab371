-- In this edition, generated queries call this function. No other role can create a function in the internal schema
-- that matches the arguments better. If the function were written in PL/pgSQL, a session would keep a compiled copy of
-- it for each row type, that is, for each partition.
CREATE FUNCTION inorder_internal.feed_is_table(row_of anyelement, row_type oid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN pg_catalog.oideq(pg_catalog.pg_typeof(row_of), row_type) THEN true
                ELSE inorder_internal.say_other_table(pg_catalog.pg_typeof(row_of)) END
$$;

