-- Processes of the server that are no sessions, and this one. Who ends is not shown any more while its process still is.
SELECT pid FROM pg_stat_activity WHERE backend_type <> 'client backend' OR pid = pg_backend_pid();
