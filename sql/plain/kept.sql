---- lock_feed: plpgsql keys
BEGIN
    -- A row lock, which only those can take who may move the feed; any role could take an advisory lock. It writes, so it
    -- is taken when there is something to write.
    PERFORM FROM inorder_internal.feed_state AS s WHERE s.feed = lock_feed.feed ORDER BY s.seq DESC LIMIT 1
    FOR NO KEY UPDATE;
END
---- session_lives: plpgsql
DECLARE
    key bigint := inorder_internal.session_key(number);
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN false;
    ELSIF number::text = current_setting('inorder.session', true) THEN
        -- this_session() has looked at it, before a batch is given away.
        RETURN true;
    ELSIF pg_try_advisory_lock_shared(key) THEN
        PERFORM pg_advisory_unlock_shared(key);
        RETURN false;
    END IF;
    RETURN true;
END
