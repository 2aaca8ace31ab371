-- How full the leaf pages of a btree are, in percent, and how many there are. Reads the whole index.
SELECT avg_leaf_density, leaf_pages FROM pgstatindex(%(index)s::regclass);
