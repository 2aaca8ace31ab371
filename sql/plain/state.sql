-- The role whose privileges count: that of SET ROLE, or of a SECURITY DEFINER function that makes the call.
CREATE FUNCTION inorder_internal.caller() RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE
RETURN quote_ident(current_user)::regrole::oid;

---- is_written_here: plpgsql keys
DECLARE
    context text;
BEGIN
    -- A function that writes is in the context, with its statement. INSERT has none there but this one, COPY and a
    -- subscription a line of their own.
    GET DIAGNOSTICS context = PG_CONTEXT;
    RETURN cardinality(string_to_array(context, chr(10))) > 2;
END
---- owns: plpgsql keys
BEGIN
    -- There may be two rows, if this transaction has changed one of which its older snapshot sees the version before
    -- others did. The owner of the table at that time may own it no more: an owner has each privilege with grant
    -- option, which is looked up as it is now.
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
---- may_move: plpgsql STABLE keys
BEGIN
    IF inorder_internal.is_role(caller, f.owner, f.owner_name, f.system)
       OR inorder_internal.owns(caller, f.relation) THEN
        RETURN true;
    END IF;
    RETURN EXISTS (SELECT FROM unnest(f.movers) AS m WHERE inorder_internal.is_role(caller, m.id, m.name, f.system));
END
