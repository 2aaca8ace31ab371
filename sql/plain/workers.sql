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
