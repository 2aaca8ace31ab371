-- Joined by make with the other files of this folder into inorder--VERSION.sql.
\echo Use "CREATE EXTENSION inorder" to load this file. \quit

