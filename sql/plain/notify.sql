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
---- feed_notify: plpgsql
DECLARE
    named text;
BEGIN
    PERFORM inorder_internal.lock_owned(relation, 'SHARE ROW EXCLUSIVE');
    named := inorder_internal.channel_of(relation, channel);
    PERFORM inorder_internal.run_all(ARRAY(SELECT s FROM inorder_internal.notify_statements(relation, named) AS s));
    PERFORM inorder_internal.check_notifying(relation, named);
END
---- feed_unnotify: plpgsql
BEGIN
    PERFORM inorder_internal.lock_owned(relation, 'ACCESS EXCLUSIVE');
    PERFORM inorder_internal.run_all(ARRAY(SELECT s FROM inorder_internal.unnotify_statements(relation) AS s));
END
