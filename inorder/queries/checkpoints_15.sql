-- Checkpoints that were requested, by WAL or by CHECKPOINT, so far: until 16.
SELECT checkpoints_req FROM pg_stat_bgwriter;
