CREATE FUNCTION keep_columns() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects()
               WHERE NOT original AND object_type IN ('default value', 'table column')) THEN
        RAISE 'columns would lose their default, or be dropped';
    END IF;
END $$;
CREATE EVENT TRIGGER keep_columns ON sql_drop WHEN TAG IN ('DROP EXTENSION') EXECUTE FUNCTION keep_columns();
