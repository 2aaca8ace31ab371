"""The functions, operators, casts and types of the extension, read from the system catalog."""

from dataclasses import dataclass
from typing import Any, cast

from inorder.connection.database import Connection

# Functions, types, operators and casts that belong to the extension or, in the SQL edition, to its installer.
MEMBERS = """
(SELECT d.classid, d.objid FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'inorder'
    AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
 UNION ALL SELECT 'pg_proc'::regclass, p.oid FROM pg_proc AS p WHERE p.proowner = 'installer'::regrole
 UNION ALL SELECT 'pg_type'::regclass, t.oid FROM pg_type AS t WHERE t.typowner = 'installer'::regrole
 UNION ALL SELECT 'pg_cast'::regclass, c.oid FROM pg_cast AS c
    JOIN pg_type AS t ON t.oid IN (c.castsource, c.casttarget) WHERE t.typowner = 'installer'::regrole) AS d
"""
FUNCTIONS = f"""
SELECT p.oid::int, n.nspname, p.proname, p.prokind::text, p.pronargdefaults,
       ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a(t, i) ORDER BY i),
       ARRAY(SELECT coalesce(p.proargnames[i], '') FROM generate_series(1, p.pronargs) AS i)
FROM {MEMBERS} JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE has_function_privilege('mallory', p.oid, 'EXECUTE')
  -- In the SQL edition, admitted roles can write the state, including with internal functions. Only public functions
  -- check who owns a feed or a table.
  AND (n.nspname <> 'inorder_internal' OR p.proowner <> 'installer'::regrole) ORDER BY n.nspname, p.oid
"""
OPERATORS = f"""
SELECT n.nspname, o.oprname, format_type(o.oprleft, NULL), format_type(o.oprright, NULL)
FROM {MEMBERS} JOIN pg_operator AS o ON d.classid = 'pg_operator'::regclass AND o.oid = d.objid
JOIN pg_namespace AS n ON n.oid = o.oprnamespace ORDER BY o.oid
"""
CASTS = f"""
SELECT format_type(c.castsource, NULL), format_type(c.casttarget, NULL)
FROM {MEMBERS} JOIN pg_cast AS c ON d.classid = 'pg_cast'::regclass AND c.oid = d.objid ORDER BY c.oid
"""
TYPES = f"""
SELECT format_type(t.oid, NULL) FROM {MEMBERS} JOIN pg_type AS t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
WHERE t.typnamespace = 'public'::regnamespace AND t.typtype IN ('b', 'c') ORDER BY t.oid
"""


@dataclass(frozen=True)
class Function:
    oid: int
    schema: str
    name: str
    kind: str
    defaults: int
    types: list[str]
    arguments: list[str]

    @property
    def signature(self) -> str:
        return f"{self.schema}.{self.name}({', '.join(self.types)})"


@dataclass(frozen=True)
class Catalogue:
    functions: list[Function]
    operators: list[tuple[str, str, str, str]]
    casts: list[tuple[str, str]]
    types: list[str]


def read(admin: Connection) -> Catalogue:
    """Read the catalog. The admin's search_path has only pg_catalog, so that type names contain their schema."""
    functions, operators, casts, types = (
        cast(list[Any], admin.execute(query.encode()).fetchall()) for query in (FUNCTIONS, OPERATORS, CASTS, TYPES)
    )
    return Catalogue([Function(*row) for row in functions], operators, casts, [name for (name,) in types])
