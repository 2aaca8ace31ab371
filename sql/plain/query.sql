-- What the texts call in the place of feed_is_table(): nobody else can put a function beside it that matches better.
CREATE FUNCTION inorder_internal.feed_is_table(row_of anyelement, row_type oid)
RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_typeof(row_of)::oid IS DISTINCT FROM row_type THEN
        RAISE '% is not the table that this query was made for', pg_typeof(row_of)
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'The table, or its schema, was renamed, and another relation has its name.',
              HINT = 'Have the query made again, in a new transaction.';
    END IF;
    RETURN true;
END $$;

