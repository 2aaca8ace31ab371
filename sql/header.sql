-- Joined by make with the other files of this folder into inorder--VERSION.sql.
\echo Use "CREATE EXTENSION inorder" to load this file. \quit


-- Functions build queries by format(), in whose text the schema's name stands.
DO $$
BEGIN
    IF strpos('@extschema@', '%') > 0 THEN
        RAISE 'inorder cannot live in schema %: its name has a percent sign', '@extschema@' USING ERRCODE = 'invalid_schema_name';
    END IF;
END $$;
