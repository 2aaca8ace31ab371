-- The role whose privileges count: that of SET ROLE, or of a SECURITY DEFINER function that makes the call.
CREATE FUNCTION inorder_internal.caller() RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE
RETURN quote_ident(current_user)::regrole::oid;

---- is_written_here: plpgsql keys
BEGIN
    -- Functions that write have this setting while they run; pg_restore and COPY do not. It is a setting of the server's
    -- that matters to nobody: a role without privileges cannot attach one of ours to a function.
    RETURN concat('geqo_seed = ', current_setting('geqo_seed')) = '@writes@';
END
---- owns: plpgsql keys
BEGIN
    -- Of two rows if this transaction has changed one of which its older snapshot sees the version before others did. Who
    -- owned the table then may own it no more: an owner has each privilege with grant option, and this is looked up as it is.
    RETURN coalesce((SELECT bool_and(pg_has_role(caller, c.relowner, 'USAGE')
                                     AND has_table_privilege(caller, c.oid, 'SELECT WITH GRANT OPTION'))
                     FROM pg_class AS c WHERE c.oid = relation), false);
END
---- may_read: plpgsql keys
BEGIN
    RETURN coalesce((SELECT bool_and(has_table_privilege(caller, c.oid, 'SELECT')
                                     AND has_schema_privilege(caller, c.relnamespace, 'USAGE'))
                     FROM pg_class AS c WHERE c.oid = relation), false);
END
