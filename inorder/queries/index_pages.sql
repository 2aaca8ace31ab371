-- How full the leaf pages of a btree are, in percent, and how many there are. Reads the whole index.
-- pgstattuple, every version; NaN is what it says of an index without a leaf page.
SELECT nullif(avg_leaf_density, 'NaN'), leaf_pages FROM pgstatindex(%(index)s::regclass);
