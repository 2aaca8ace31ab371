-- No view or foreign table takes the place of a table. Servers before 15.8 and 16.4 have no setting for that.
SELECT pg_catalog.set_config(s.name, 'view, foreign-table', true)
FROM pg_catalog.pg_settings AS s WHERE s.name = 'restrict_nonsystem_relation_kind'
