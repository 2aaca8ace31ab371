\echo Use "ALTER EXTENSION inorder UPDATE" to load this file. \quit
SET LOCAL search_path TO pg_catalog, pg_temp;

DO $$
BEGIN
    RAISE 'inorder 0.1.0 cannot be updated' USING ERRCODE = 'feature_not_supported',
          DETAIL = '0.1.0 was never released, and its state had several forms.',
          HINT = 'Write down the defaults that use inorder, the feeds and the tables that are counted. Then run DROP '
                 'EXTENSION inorder CASCADE and CREATE EXTENSION inorder, and make them again: see docs/upgrading.md.';
END $$;
