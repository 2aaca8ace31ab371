"""The objects of the extension, or of the SQL edition, by their definitions: what pg_dump writes of each."""

import re
import subprocess

from inorder.database import connect
from inorder.lab.server.cluster import Cluster

ENTRY = re.compile(r"^-- Name: (?P<name>.*); Type: (?P<type>.*); Schema: (?P<schema>.*); Owner: .*$", re.M)
# Numbers of this database only.
NUMBERS = re.compile(r"^-- For binary upgrade, must preserve.*\n(?:SELECT pg_catalog\.binary_upgrade_set_next_.*\n)+", re.M)
OF_EXTENSION = """
SELECT unnest(extconfig)::regclass::text, unnest(extcondition) FROM pg_extension WHERE extname = 'inorder' ORDER BY 1
"""


def dumped(cluster: Cluster, database: str, *options: str) -> str:
    """The schema of a database."""
    command = [cluster.original.program("pg_dump"), "--schema-only", *options, database]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=cluster.environment())
    return done.stdout


def entries(dump: str) -> dict[str, str]:
    """By name, type and schema: definition, owner, privileges and comment are entries of their own.

    >>> entries("-- Name: a; Type: TABLE; Schema: s; Owner: o\\n--\\n\\nCREATE TABLE s.a ();\\n\\n\\n--\\n")
    {'TABLE s a': 'CREATE TABLE s.a ();'}
    """
    found: dict[str, str] = {}
    parts = ENTRY.split(NUMBERS.sub("", dump))
    for name, kind, schema, text in zip(*[iter(parts[1:])] * 4, strict=True):
        lines = [line for line in text.splitlines() if line and not line.startswith(("--", "\\"))]
        key = f"{kind} {schema} {name}"
        assert key not in found, key
        found[key] = "\n".join(lines)
    return found


def objects(cluster: Cluster, database: str) -> dict[str, str]:
    """Everything in the schemas of the extension, which has its members dumped in full only for pg_upgrade."""
    dump = dumped(cluster, database, "--binary-upgrade")
    found = {key: text for key, text in entries(dump).items() if not key.startswith("EXTENSION - inorder")}
    with connect(f"{cluster.dsn} dbname={database}") as connection:
        found["configuration"] = str(connection.execute(OF_EXTENSION.encode()).fetchall())
        found["members"] = str(connection.execute(MEMBERS.encode()).fetchall())
    return found


MEMBERS = """
SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'inorder') ORDER BY 1 COLLATE "C"
"""


def difference(left: dict[str, str], right: dict[str, str]) -> str:
    """What differs, an object a paragraph; empty if nothing does."""
    keys = [key for key in sorted(left.keys() | right.keys()) if left.get(key) != right.get(key)]
    return "\n\n".join(f"{key}\n{left.get(key, 'missing')}\n--\n{right.get(key, 'missing')}" for key in keys)
