"""Threads of the load tests, which resume their work after the server was killed, and helpers for transactions."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from inorder.connection.database import Connection, connect
from psycopg.conninfo import make_conninfo

from world.world import World

RECONNECT_SECONDS = 0.2
ISOLATIONS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
LOST = (None, "57P01", "57P02", "57P03", "08000", "08003", "08006", "08001", "08004")


def is_lost(error: Exception) -> bool:
    return isinstance(error, psycopg.OperationalError) and error.sqlstate in LOST


class Role(threading.Thread):
    user: str | None = None  # a database role that is not a superuser
    on_standby = False  # a recovery conflict may end sessions, sometimes without a message to the client

    def __init__(self, world: World, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.world = world
        self.rng = world.randomness(name)

    def run(self) -> None:
        """Run work(), and repeat it if the server was killed. Any other error ends the round."""
        try:
            while not self.ran():
                self.world.broken.wait(RECONNECT_SECONDS)
        except Exception as error:
            self.world.problem(f"{self.name}: {type(error).__name__}: {error}")

    def ran(self) -> bool:
        """Run work(). Return False if it lost its connection."""
        try:
            self.work()
        except psycopg.OperationalError as error:
            if (self.world.is_long or self.on_standby) and is_lost(error) and not self.world.broken.is_set():
                return False
            raise
        return True

    def work(self) -> None:
        """Do the work of the role. The work is started again after a lost connection."""
        raise NotImplementedError

    def session(self, dsn: str) -> Connection:
        connection = connect(make_conninfo(dsn, user=self.user) if self.user else dsn)
        connection.execute("SELECT set_config('application_name', %s, false)", [self.name])
        return connection

    def pause(self, seconds: float) -> None:
        """Pause for a random time of at most ``seconds``, or until writers must end."""
        self.world.stop.wait(self.rng.random() * seconds)


@contextmanager
def transaction(connection: Connection, isolation: str = "READ COMMITTED") -> Iterator[None]:
    """Run the block in a transaction. After an error, roll back if the connection is open, and raise the error."""
    connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: Connection) -> None:
    if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        connection.execute("ROLLBACK")
