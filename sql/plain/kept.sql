---- lock_feed: plpgsql keys
BEGIN
    -- A row lock, which only roles that are admitted can take; any role could take an advisory lock. It writes, so it is
    -- taken when there is something to write.
    PERFORM FROM inorder_internal.feed_state AS s WHERE s.feed = lock_feed.feed ORDER BY s.seq DESC LIMIT 1
    FOR NO KEY UPDATE;
END
