-- Client sessions other than this one, of an application or of any. A session's counters are complete once it has ended.
SELECT count(*) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND %(name)s IN ('', application_name);
