"""The server whose folders the extension's files go to."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from inorder.errors import InputError
from inorder.servers import Server, from_pg_config, installed_servers


def only_one(servers: Sequence[Server]) -> Server:
    """The only server of the system; an error that says how to choose if there are several, or how to get one."""
    if not servers:
        raise InputError(
            "no pg_config of PostgreSQL 15 or later was found\n"
            "HINT:  apt-get install postgresql-server-dev-NN   (Debian's name, NN: the major version of your server), "
            "or give --pg-config"
        )
    if len(servers) > 1:
        choices = " or ".join(f"--pg-config {server.bindir / 'pg_config'}" for server in servers)
        raise InputError(f"{len(servers)} PostgreSQL are installed\nHINT:  choose one by {choices}")
    return servers[0]


def target_server(pg_config: Path | None, environ: Mapping[str, str] = os.environ) -> Server:
    if pg_config is not None:
        return from_pg_config(pg_config, "--pg-config")
    if environ.get("PG_CONFIG"):
        return from_pg_config(Path(environ["PG_CONFIG"]), "PG_CONFIG")
    return only_one(installed_servers())
