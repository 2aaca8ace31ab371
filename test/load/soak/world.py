"""The folder with the state that all pieces of a soak share: server, ledger, readers' rows and samples.

Tokens are stored in files with 8 bytes per token. This bounds memory use, and all tokens can be compared after each
piece.
"""

import fcntl
import itertools
import json
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.installation import relocate
from numpy.typing import NDArray

from world.ledger import ROW_BITS, Ledger, Rows
from world.world import World

TABLES = ("s_uuid", "s_parts")  # tables of the stress test; one has partitions
LANES = 1 << 20  # number of lanes that are reserved for the writers and prepared transactions of one piece
PROBED = (1 << ROW_BITS + 2) - 1  # mask of the bits that are zero in the rows whose delay is measured

Tokens = NDArray[np.int64]


def tokens_in(path: Path) -> Tokens:
    return np.fromfile(path, np.int64) if path.exists() else np.empty(0, np.int64)


def put(path: Path, tokens: Sequence[int], place: int | None = None) -> int:
    path.touch()
    with path.open("r+b") as file:
        file.seek(0, 2) if place is None else file.truncate(place * 8)
        file.seek(0, 2)
        file.write(np.array(tokens, np.int64).tobytes())
        return file.tell() // 8


class KeptLedger(Ledger):
    """The ledger of the stress test, stored in files. It also limits the rate of writers and measures delays."""

    def __init__(self, folder: Path, rate: float) -> None:
        super().__init__()
        self.folder, self.rate = folder, rate
        self.budget, self.since = 0.0, time.monotonic()
        self.born: dict[int, float] = {}
        self.delays: dict[str, list[float]] = defaultdict(list)
        self.gone = {table: set(tokens_in(self.file("gone", table)).tolist()) for table in TABLES}

    def file(self, name: str, table: str) -> Path:
        return self.folder / f"{name}.{table}"

    def add(self, rows: Rows) -> None:
        now = time.monotonic()
        with self.lock:
            for table in rows.keys() & set(TABLES):
                put(self.file("committed", table), rows[table])
                self.budget -= len(rows[table])
                self.born.update((token, now) for token in rows[table] if token & PROBED == 0)

    def leave(self, table: str, tokens: Sequence[int]) -> None:  # type: ignore[override]
        super().leave(table, tokens)
        put(self.file("gone", table), tokens)

    def is_ahead(self) -> bool:
        with self.lock:
            now = time.monotonic()
            self.budget = min(self.budget + self.rate * (now - self.since), self.rate / 4)
            self.since = now
            return self.budget <= 0

    def reached(self, reader: str, tokens: Sequence[int]) -> None:
        now = time.monotonic()
        waits = [now - self.born.get(token, now) for token in tokens if token & PROBED == 0]
        self.delays[reader].extend(waits)

    def forget_old(self, seconds: float = 3600) -> None:
        with self.lock:
            oldest = time.monotonic() - seconds
            self.born = {token: at for token, at in self.born.items() if at > oldest}

    def amount(self, table: str) -> int:
        return self.file("committed", table).stat().st_size // 8


@dataclass
class SoakWorld(World):
    folder: Path = Path()
    piece: int = 0
    before: float = 0.0  # seconds of the earlier pieces
    began: float = field(default_factory=time.monotonic)
    act: str = "calm"
    every: float = 60.0  # seconds between two bursts of DDL
    changing: Event = field(default_factory=Event)  # set while an owner changes a table: transactions must be short

    def __post_init__(self) -> None:
        self.lanes = itertools.count(1 + self.piece * LANES)

    @property
    def files(self) -> "KeptLedger":
        assert isinstance(self.ledger, KeptLedger)
        return self.ledger


class KeptCluster(Cluster):
    def __init__(self, server: Installation, folder: Path, extra_sources: Sequence[Path] | None) -> None:
        super().__init__(server, extra_sources)
        self.kept = folder / "server"

    @contextmanager
    def _place(self) -> Iterator[Path]:
        self.kept.mkdir(parents=True, exist_ok=True)
        with (self.kept / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{self.kept} is in use") from None
            yield self.kept

    def _create(self) -> None:
        mark = self.folder / "made"
        if mark.exists():
            self.server = relocate(self.original, self.folder / "server")
            return
        for path in (self.data, self.folder / "run", self.folder / "server"):
            shutil.rmtree(path, ignore_errors=True)
        super()._create()
        mark.touch()


def diary(folder: Path) -> dict[str, Any]:
    """Return the options of a soak and the results of its pieces. ``clean``: the last piece was not interrupted."""
    state: dict[str, Any] = json.loads((folder / "soak.json").read_text())
    return state


def replace(path: Path, content: object) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1))
    new.rename(path)
