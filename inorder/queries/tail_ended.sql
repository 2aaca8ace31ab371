-- The transactions that have ended on a node.
SELECT {inorder}.ended_transactions(0)::pg_catalog.text
