-- Whether a schema is to stay: it has objects, or is of another role.
SELECT FROM pg_namespace AS n
WHERE n.nspname = {schema}
  AND (n.nspname = 'public' OR NOT pg_has_role(n.nspowner, 'USAGE')
       OR EXISTS (SELECT FROM pg_depend AS d WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid))
