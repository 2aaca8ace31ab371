"""Run readers one after the other: provide the server that they need, and run all cases."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from inorder.connection.database import one_row
from inorder.installations import find_installation
from inorder.lab.check.arena import Arena, conform, run_case, run_load
from inorder.lab.check.reader import Reader
from inorder.lab.check.verdict import Checked
from inorder.lab.check.ways import Way
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.own_server import OwnServer, require_usable
from inorder.lab.targets.target import Target
from inorder.lab.targets.throw_away import ThrowAway

SETTINGS = {"wal_level": "logical", "max_prepared_transactions": "10", "fsync": "off"}


@dataclass(frozen=True)
class Place:
    """The server on which readers run. ``lacks``: the reason why the server has no extension, or ""."""

    target: Target
    version: str
    lacks: str = ""


@dataclass(frozen=True)
class Amount:
    """The amount of testing.

    ``most``: maximum number of schedules per case, or None for all. ``load``: duration of the random load in seconds.
    """

    most: int | None = None
    load: float = 5
    seed: int = 1


@contextmanager
def throw_away(ways: Sequence[Way], bindir: Path | None = None) -> Iterator[tuple[ThrowAway, Place]]:
    """Start a temporary server.

    Install the extension if a reader needs it and this machine can compile it.
    """
    server = find_installation(bindir)
    missing = [name for name in ("make", server.compiler.split()[0]) if not shutil.which(name)]
    lacks = f"there is no {missing[0]} to compile the extension" if missing else ""
    with_extension = not lacks and any(way.needs == "inorder" for way in ways)
    with Cluster(server, () if with_extension else None) as cluster:
        target = ThrowAway(cluster)
        target.serve(SETTINGS)
        with target.connect() as connection:
            if with_extension:
                target.create_schema(connection)
            else:
                connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        yield target, Place(target, server.version, lacks)


@contextmanager
def place_for(ways: Sequence[Way], dsn: str | None, bindir: Path | None) -> Iterator[Place]:
    if dsn is None:
        with throw_away(ways, bindir) as (_target, place):
            yield place
    else:
        own = OwnServer(dsn, None)
        require_usable(own.capabilities)
        with own:
            lacks = "" if own.capabilities.has_inorder else "the database has no extension inorder"
            yield Place(own, own.capabilities.version, lacks)


def impossible(place: Place, way: Way) -> str:
    """Return the reason why the reader of a way cannot run on the server, or ""."""
    with place.target.connect() as connection:
        (level,) = one_row(connection, "SELECT pg_catalog.current_setting('wal_level')")
    if way.needs == "inorder" and place.lacks:
        return place.lacks
    return "wal_level is not logical" if way.needs == "logical" and level != "logical" else ""


def check(
    target: Target, way: Way, amount: Amount, progress: Callable[[str], object] = len,
    own: Callable[[str], Reader] | None = None,
) -> Checked:  # fmt: skip
    """Run all cases for a way of reading, then the random load. Call ``progress`` with the name of each case."""
    checked = Checked(way)
    with closing(Arena(target, way, own)) as arena:
        if way.program and not own:
            conform(arena)
        for case in way.cases:
            progress(case.name)
            checked.outcomes.append(run_case(arena, case, amount.most))
        checked.outcomes.append(run_load(arena, amount.load, amount.seed))
    return checked
