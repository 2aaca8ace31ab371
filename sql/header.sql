-- The Makefile joins this file and the other files in sql/ into inorder--VERSION.sql.
\echo Use "CREATE EXTENSION inorder" to load this file. \quit

-- This script runs as a superuser, and other roles may have created objects in the schema of the extension. References
-- to that schema are qualified, and pass arguments of exactly the declared types.
SET LOCAL search_path TO pg_catalog, pg_temp;

-- Public functions are in the schema that the user chooses. State and internal functions are in a separate schema,
-- which is owned by the superuser who runs this script, and in which no other role can create objects. If the schema
-- already exists, the script fails.
CREATE SCHEMA inorder_internal;
COMMENT ON SCHEMA inorder_internal IS
'State and internal functions of the extension inorder, which may change in any version.';

-- This schema contains functions that are called from outside the extension. The queries that reader_batch_query()
-- returns call feed_is_table(), and the tool calls functions with an argument of type anyelement. In the schema of
-- public functions, another role might create a function that matches the arguments better. In this schema only a
-- superuser can create objects. Since the schema contains no state, every role has USAGE.
CREATE SCHEMA inorder_text;
COMMENT ON SCHEMA inorder_text IS
'Functions that generated queries and the command-line tool of inorder call.';

-- Raise an error unless a value is of the row type with this OID (pg_class.reltype).
CREATE FUNCTION inorder_text.feed_is_table(row_of anyelement, row_type oid) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- Raise an error if the library of this session is older than the extension. A session keeps the library that it has
-- loaded. The scripts of the extension call this function first.
CREATE FUNCTION inorder_internal.check_library() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
SELECT inorder_internal.check_library();

-- Versions of the interface between library and SQL that this SQL supports (version.c). A library that needs another
-- version refuses calls that need the state.
CREATE TYPE inorder_internal.interface_version AS ENUM ('1');
