-- Where the nodes are.
SELECT groupid, nodename, nodeport FROM pg_catalog.pg_dist_node WHERE noderole OPERATOR(pg_catalog.=) 'primary'
