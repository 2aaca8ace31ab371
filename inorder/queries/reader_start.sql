-- A position kept by the reader to begin with, as JSON.
SELECT {inorder}.reader_start({table}::pg_catalog.oid::pg_catalog.regclass,
                            {start}::pg_catalog.text)::pg_catalog.jsonb::pg_catalog.text
