-- What values look like as text: the same in every run. The time zone is the user's.
SELECT pg_catalog.set_config(name, value, true)
FROM (VALUES ('search_path', 'pg_catalog, pg_temp'), ('datestyle', 'ISO, YMD'), ('intervalstyle', 'postgres'),
             ('extra_float_digits', '1'), ('bytea_output', 'hex')) AS s(name, value)
