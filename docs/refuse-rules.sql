CREATE FUNCTION refuse_rules() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND rolsuper) THEN
        RAISE 'only superusers create rules here' USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

CREATE EVENT TRIGGER refuse_rules ON ddl_command_start WHEN TAG IN ('CREATE RULE') EXECUTE FUNCTION refuse_rules();
