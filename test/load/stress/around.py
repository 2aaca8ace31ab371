"""Options of a round: a clock that is changed repeatedly, and a pooler between readers and server."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inorder.lab.server.cluster import Cluster

from pooler import pooled
from set_clock import SetClock, can_set_clocks
from world.edition import INSTALLER, USER
from world.role import Role
from world.tables import MOVER, OWNER
from world.world import World

# Steps of the clock, in seconds. PostgreSQL detects deadlocks with the system clock, so a step back of 20 s may
# delay the detection by 20 s.
STEPS = (-20, -3, 0, 3, 20)
LAST = 60  # seconds after which a lease has expired despite these steps
# Standby settings for a changing clock. With recovery_min_apply_delay, a standby whose clock was set back would wait
# until its clock reaches the time of the commit.
WITHOUT_TIMES = {"recovery_min_apply_delay": "0", "wal_sender_timeout": "0", "wal_receiver_timeout": "0"}
# Session pooling uses as many sessions as the server allows. Transaction pooling uses fewer, and runs consecutive
# transactions in different sessions.
POOLS = {
    "session": "default_pool_size = 90\nmax_client_conn = 500\n",
    "transaction": "default_pool_size = 20\nmax_client_conn = 500\nserver_round_robin = 1\n",
}
MODES = tuple(POOLS)


@dataclass(frozen=True)
class Around:
    has_clock: bool = False
    pooler: str | None = None

    def missing(self) -> str | None:
        return "there is no C compiler" if self.has_clock and not can_set_clocks() else None

    @property
    def settings(self) -> dict[str, str]:
        return WITHOUT_TIMES if self.has_clock else {}


NOTHING = Around()


class Stepper(Role):
    """Sets the clock of all servers about every second."""

    def __init__(self, world: World, clock: SetClock) -> None:
        super().__init__(world, "stepper")
        self.clock = clock

    def work(self) -> None:
        try:
            while not self.world.stop.is_set():
                self.clock.set(self.rng.choice(STEPS))
                self.world.done["clock set"] += 1
                self.pause(2)
        finally:
            self.clock.set(LAST)


@contextmanager
def settable_clock() -> Iterator[SetClock]:
    """Yield a clock that can be set for each process that is started during the block."""
    with tempfile.TemporaryDirectory(prefix="inorder-stress-") as folder:
        Path(folder).chmod(0o755)
        clock = SetClock(Path(folder))
        with clock.for_children():
            yield clock


@contextmanager
def pooled_readers(world: World, cluster: Cluster, mode: str) -> Iterator[None]:
    roles = ("postgres", OWNER, MOVER, INSTALLER, USER)
    with tempfile.TemporaryDirectory(prefix="inorder-stress-") as folder:
        Path(folder).chmod(0o755)
        with pooled(cluster, Path(folder), mode, POOLS[mode], roles) as world.pooler:
            yield
