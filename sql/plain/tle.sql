-- pg_tle runs this as the role of CREATE EXTENSION, whose functions every role will call: nobody else may put functions
-- of the same names beside them.
DO $$
BEGIN
    IF (SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = '@extschema@')
       <> quote_ident(current_user)::regrole::oid THEN
        RAISE 'schema % must belong to the role that runs CREATE EXTENSION', '@extschema@'
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'CREATE SCHEMA inorder; CREATE EXTENSION inorder SCHEMA inorder;';
    ELSIF EXISTS (SELECT FROM pg_proc AS p WHERE p.pronamespace::regnamespace::text = '@extschema@') THEN
        RAISE 'schema % has functions already', '@extschema@' USING ERRCODE = 'duplicate_function',
              HINT = 'CREATE SCHEMA inorder; CREATE EXTENSION inorder SCHEMA inorder;';
    END IF;
END $$;
