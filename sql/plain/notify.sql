---- feed_notify_trigger: plpgsql keys
BEGIN
    IF TG_LEVEL <> 'STATEMENT' THEN
        RAISE 'trigger "%" is not for each statement', TG_NAME
        USING ERRCODE = 'trigger_protocol_violated', HINT = 'feed_notify() makes the right triggers.';
    ELSIF TG_NARGS <> 1 THEN
        RAISE 'trigger "%" has % arguments instead of a channel', TG_NAME, TG_NARGS
        USING ERRCODE = 'trigger_protocol_violated', HINT = 'feed_notify() makes the right triggers.';
    END IF;
    -- A statement that inserted no row in a transaction that wrote nothing else has no number.
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        PERFORM pg_notify(TG_ARGV[0], '');
    END IF;
    RETURN NULL;
END
