-- This run's sessions other than this one. A session's counters are complete once it has ended.
SELECT count(*) FROM pg_stat_activity WHERE application_name = %(name)s AND pid <> pg_backend_pid();
