"""The interface for readers under test, and readers in SQL. Other readers are in ``programs``."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from inorder.lab.check.session import FailedError, Session
from inorder.lab.check.ways import Way, filled

TYPES = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
    "WHERE attrelid = 'events'::regclass AND attnum > 0 AND NOT attisdropped"
)

Blockers = Callable[[int], tuple[str, ...]]


class Reader(ABC):
    """The interface for readers.

    ``begin`` starts a step of a poll, ``wait`` returns the sessions that block the step, and ``rows`` ends the step. A
    poll has ``statements`` steps. With ``kill``, the reader stops as in a crash, and is started again.
    """

    statements = 1
    last_sql = ""  # the SQL of the last step
    pid = -1  # process ID of the reader's backend, if known

    @abstractmethod
    def begin(self, step: int, now: str, kill: bool) -> None: ...

    @abstractmethod
    def wait(self, blockers: Blockers) -> tuple[str, ...]: ...

    @abstractmethod
    def rows(self, step: int, kill: bool) -> tuple[str, ...] | None:
        """Return the keys of the poll. Return None if the poll has more steps, and no keys if the poll was killed."""

    @abstractmethod
    def close(self) -> None: ...


class SqlReader(Reader):
    """A reader in SQL. The first column of each row is a key, unless it is null; :last is the last key.

    Later statements can refer to each column of the last row by its name, for example :upto. If the table events has a
    column with this name, the value has the type of that column. A poll and the processing of its rows are one
    transaction. With ``finish``, they are two transactions, and the rows are stored between them.
    """

    def __init__(self, way: Way, connect: Callable[[], Session]) -> None:
        self.way, self.connect = way, connect
        self.texts = way.statements
        self.statements = way.steps
        self.stored: dict[str, str | None] = dict(way.start)
        self.values = dict(self.stored)
        self.restart()
        self.keys: tuple[str, ...] = ()

    def begin(self, step: int, now: str, kill: bool) -> None:
        if step == 0:
            self.values, self.keys = dict(self.stored), ()
        is_last = step == len(self.texts) - 1
        text = self.way.finish if step == len(self.texts) else self.texts[step]
        text = filled(text.replace(":now", f"timestamptz '{now}'"), self.values, self.types)
        text = f"{self.way.read}; {text}" if step == 0 else text
        self.last_sql = f"{text}; COMMIT" if is_last and not kill else text
        self.session.send(self.last_sql)

    def wait(self, blockers: Blockers) -> tuple[str, ...]:
        return self.session.wait(blockers)

    def rows(self, step: int, kill: bool) -> tuple[str, ...] | None:
        try:
            answer = self.session.answer()
        except FailedError:
            self.session.run("ROLLBACK")
            return ()
        if step < len(self.texts):
            self.take(answer.names, answer.rows)
            self.take(["key"], [(key,) for key in self.session.notified()])
        if kill and step == len(self.texts) - 1:
            self.session.run("COMMIT" if self.way.finish else "ROLLBACK")
            self.close()
            self.restart()
            return ()
        if step < self.statements - 1:
            return None
        self.stored = self.values
        return self.keys

    def take(self, names: list[str], rows: list[tuple[str | None, ...]]) -> None:
        keys = tuple(row[0] for row in rows if row[0] is not None)
        self.keys += keys
        self.values["keys"] = f"{{{','.join(self.keys)}}}"
        if rows:
            self.values |= dict(zip(names, rows[-1], strict=True)) | ({"last": keys[-1]} if keys else {})

    def restart(self) -> None:
        """Open a new session, and wait until the backend of the previous session has exited."""
        self.session = self.connect()
        while self.session.run(f"SELECT FROM pg_stat_activity WHERE pid = {self.pid}").rows:
            pass
        self.pid = self.session.pid
        self.types = {str(name): str(type) for name, type in self.session.run(TYPES).rows}
        if self.way.listen:
            self.session.run(self.way.listens)

    def close(self) -> None:
        self.session.close()
