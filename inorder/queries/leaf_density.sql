-- How full the leaf pages of a btree are, in percent. Reads the whole index.
SELECT avg_leaf_density FROM pgstatindex(%(index)s::regclass);
