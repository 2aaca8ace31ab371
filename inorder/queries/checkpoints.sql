-- Checkpoints that were requested, by WAL or by CHECKPOINT, so far. pg_stat_checkpointer: 17 and later.
SELECT num_requested FROM pg_stat_checkpointer;
