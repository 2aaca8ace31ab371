---- feed_prepare: plpgsql
BEGIN
    RETURN QUERY SELECT s FROM inorder_internal.prepare_statements(relation, key_column, method) AS s;
END
