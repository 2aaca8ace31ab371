-- What a transaction reads and what values look like as text: the same in every run. The time zone is the user's.
-- With row_security off a policy that would hide rows is an error. While rows wait to be written the session is idle.
SELECT pg_catalog.set_config(name, value, true)
FROM (VALUES ('search_path', 'pg_catalog, pg_temp'), ('datestyle', 'ISO, YMD'), ('intervalstyle', 'postgres'),
             ('extra_float_digits', '1'), ('bytea_output', 'hex'), ('quote_all_identifiers', 'off'),
             ('array_nulls', 'on'), ('row_security', 'off'),
             ('idle_in_transaction_session_timeout', '0')) AS s(name, value)
