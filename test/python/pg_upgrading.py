"""pg_upgrade from one temporary server to another."""

import os
import shutil
import subprocess
from pathlib import Path

from inorder.connection.database import Connection
from inorder.installations import Installation, buildable_installations, embedded_installation
from inorder.lab.server.cluster import Cluster

# Programs that pg_upgrade needs and a private server lacks.
PROGRAMS = (
    "pg_ctl", "pg_controldata", "pg_resetwal", "pg_dump", "pg_dumpall", "pg_restore", "psql", "vacuumdb", "pg_upgrade",
)  # fmt: skip


def other_majors(server: Installation) -> list[Installation]:
    embedded = embedded_installation()
    servers = [*buildable_installations(), *([embedded] if embedded else [])]
    return [each for each in servers if each.major != server.major and (each.bindir / "pg_upgrade").exists()]


def run(cluster: Cluster, folder: Path, command: list[str | Path]) -> str:
    path = f"PATH={cluster.server.bindir}:{os.environ['PATH']}"
    user = cluster.account and cluster.account.pw_uid
    command_there: list[str | Path] = ["env", "-C", folder, path, *command]
    done = subprocess.run(command_there, check=False, capture_output=True, text=True, user=user)
    logs = [path.read_text()[-2000:] for path in sorted(cluster.data.glob("pg_upgrade_output.d/*/log/*_dump_*.log"))]
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *logs])
    return done.stdout


def adapt(connection: Connection, new: Installation) -> None:
    """Change object properties that make pg_upgrade fail even without inorder."""
    # Version 15.20 stores the option pg_attver for each column. pg_dump 18.6 dumps this option, but server 18.6 rejects
    # it.
    connection.execute("UPDATE pg_attribute SET attoptions = NULL WHERE attoptions[1] LIKE 'pg_attver=%'")
    built = subprocess.run([new.program("pg_config"), "--configure"], check=True, capture_output=True, text=True)
    if "--with-lz4" not in built.stdout:
        connection.execute("UPDATE pg_attribute SET attcompression = '' WHERE attcompression = 'l'")


def upgrade(before: Cluster, after: Cluster) -> Path:
    for cluster in (before, after):
        for name in PROGRAMS:
            shutil.copy(cluster.original.program(name), cluster.server.bindir)
    work = after.folder / "upgrade"
    work.mkdir(mode=0o700)
    if after.account:
        shutil.chown(work, after.account.pw_name)
    if before.server.major < 18 <= after.server.major:  # initdb enables checksums from 18 on; both servers need them
        run(before, work, [before.original.program("pg_checksums"), "--enable", "--no-sync", "-D", before.data])
    command: list[str | Path] = ["pg_upgrade", "-b", before.server.bindir, "-B", after.server.bindir]
    command += ["-d", before.data, "-D", after.data, "-U", "postgres", "-s", work, "--no-sync"]
    run(after, work, command)
    return work
