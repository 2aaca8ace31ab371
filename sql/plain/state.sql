-- Return the role whose privileges are checked: the role that SET ROLE has set, or the owner of a SECURITY DEFINER
-- function that makes the call.
CREATE FUNCTION inorder_internal.caller() RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE
RETURN quote_ident(current_user)::regrole::oid;

---- is_written_here: plpgsql keys
DECLARE
    context text;
BEGIN
    -- If a function writes, the context has a line for the function, and a line for its statement. For an INSERT by a
    -- client, the context has only the line of is_written_here(); COPY and a subscription each add one line.
    GET DIAGNOSTICS context = PG_CONTEXT;
    RETURN cardinality(string_to_array(context, chr(10))) > 2;
END
---- owns: plpgsql keys
BEGIN
    -- The snapshot may see two rows: an older version, and a version that this transaction wrote after another
    -- transaction had changed the row. The owner in an older version may no longer own the table. The current
    -- privilege is therefore also checked; an owner has each privilege with grant option.
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
