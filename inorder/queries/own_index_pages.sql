-- The same by the extension's own function, which does not round to two digits. Reads the whole index.
SELECT avg_leaf_density, leaf_pages FROM btree_leaf_pages(%(index)s::regclass);
