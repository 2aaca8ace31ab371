-- Joined by make with the other files of this folder into inorder--VERSION.sql.
\echo Use "CREATE EXTENSION inorder" to load this file. \quit

-- This script runs as a superuser, and others may have filled the schema that was chosen for the extension:
-- nothing is found there except by its full name, with arguments of exactly its types.
SET LOCAL search_path TO pg_catalog, pg_temp;

-- What users call is in the schema of their choice. State and internal functions are in a schema of the extension's
-- own, which belongs to the superuser who runs this script: nobody else can create anything in it. If it exists
-- already, this fails.
CREATE SCHEMA inorder_internal;
COMMENT ON SCHEMA inorder_internal IS
'State and internal functions of the extension inorder. What is in here changes from version to version.';
