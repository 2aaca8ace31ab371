---- seen_feeds: plpgsql
BEGIN
    RETURN QUERY SELECT f.* FROM inorder_internal.feeds_of(inorder_internal.caller()) AS f;
END
