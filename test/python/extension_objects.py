"""The objects of the extension or of the SQL edition, identified by their definitions in a dump."""

import difflib
import re
import subprocess
from pathlib import Path

from inorder.connection.database import connect
from inorder.install.offer import C
from inorder.lab.server.cluster import Cluster

ENTRY = re.compile(r"^-- Name: (?P<name>.*); Type: (?P<type>.*); Schema: (?P<schema>.*); Owner: .*$", re.M)
# Statements in a dump that differ between equal databases: the frozen transaction ID of a relation, and the value that
# existing rows have in a column that was added later.
HERE_ONLY = re.compile(
    r"^UPDATE pg_catalog\.pg_class\nSET relfrozenxid = .*\nWHERE .*;$|^SELECT .*set_missing_value.*$", re.M
)
NUMBERS = re.compile(
    r"^-- For binary upgrade, must preserve.*\n(?:SELECT pg_catalog\.binary_upgrade_set_next_.*\n)+", re.M
)
MEMBERS = """
SELECT pg_describe_object(classid, objid, objsubid) AS member FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'inorder') ORDER BY member
"""
OURS = re.compile(r"(?:^| )(?:inorder(?:_internal|_text)?|configuration|members)(?: |$)")
# Privileges of the extension's objects are equal, whether CREATE EXTENSION recorded them in pg_init_privs or not: after
# ALTER DEFAULT PRIVILEGES, it records those of other functions.
RECORDING = re.compile(r"^SELECT pg_catalog\.binary_upgrade_set_record_init_privs\((?:true|false)\);\n?", re.MULTILINE)
OF_EXTENSION = """
SELECT unnest(extconfig)::regclass::text, unnest(extcondition) FROM pg_extension WHERE extname = 'inorder' ORDER BY 1
"""


def dumped(cluster: Cluster, database: str, *options: str) -> str:
    command: list[str | Path] = [cluster.original.program("pg_dump"), "--schema-only", *options, database]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=cluster.environment())
    return done.stdout


def entries(dump: str) -> dict[str, str]:
    """Split a dump into entries by type, schema and name: definition, owner, privileges and comment.

    Operators with the same name are one entry.

    >>> entries("-- Name: a; Type: TABLE; Schema: s; Owner: o\\n--\\n\\nCREATE TABLE s.a ();\\n\\n\\n--\\n")
    {'TABLE s a': 'CREATE TABLE s.a ();'}
    """
    by_name: dict[str, list[str]] = {}
    parts = ENTRY.split(HERE_ONLY.sub("", NUMBERS.sub("", dump)))
    for name, kind, schema, text in zip(*[iter(parts[1:])] * 4, strict=True):
        lines = [line for line in text.splitlines() if line and not line.startswith(("--", "\\"))]
        by_name.setdefault(f"{kind} {schema} {name}", []).append("\n".join(lines))
    return {key: "\n".join(sorted(texts)) for key, texts in by_name.items()}


def objects(cluster: Cluster, database: str) -> dict[str, str]:
    """Return the objects in the extension's schemas. Only a dump for pg_upgrade defines the extension's members."""
    dump = dumped(cluster, database, "--binary-upgrade")
    contents = {key: text for key, text in entries(dump).items() if not key.startswith("EXTENSION - inorder")}
    with connect(f"{cluster.dsn} dbname={database}") as connection:
        contents["configuration"] = str(connection.execute(OF_EXTENSION.encode()).fetchall())
        contents["members"] = str(connection.execute(MEMBERS.encode()).fetchall())
    return contents


def objects_of_edition(cluster: Cluster, database: str) -> dict[str, str]:
    return entries(dumped(cluster, database, "--schema=inorder", "--schema=inorder_internal"))


def installed(cluster: Cluster, database: str, edition: str) -> dict[str, str]:
    """Return the objects of an installation in the schema inorder, without users' tables."""
    if edition != C:
        return objects_of_edition(cluster, database)
    contents = {key: RECORDING.sub("", text).strip() for key, text in objects(cluster, database).items()}
    return {key: text for key, text in contents.items() if OURS.search(key) and text}


def difference(left: dict[str, str], right: dict[str, str]) -> str:
    """Return a diff of two installations, with the name of each object that differs, or an empty string."""
    diff = []
    for key in sorted(left.keys() | right.keys()):
        lines = difflib.unified_diff(left.get(key, "").splitlines(), right.get(key, "").splitlines(), n=0, lineterm="")
        diff += [line for line in [key, *list(lines)[2:]] if left.get(key) != right.get(key)]
    return "\n".join(diff)
