---- new_batch: sql IMMUTABLE
RETURN NULL::inorder_internal.worker_batch;
