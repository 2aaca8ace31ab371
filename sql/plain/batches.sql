---- seen_batches: plpgsql
BEGIN
    RETURN QUERY SELECT b.* FROM inorder_internal.batches_of(inorder_internal.caller()) AS b;
END
