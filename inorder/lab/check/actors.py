"""The actors of a schedule: writers and a reader. An actor executes words, which may wait for other sessions."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from inorder.lab.check.history import Event, History, Polled, Written
from inorder.lab.check.reader import Reader
from inorder.lab.check.schedule import KILLED, READER
from inorder.lab.check.session import FailedError, Session
from inorder.lab.check.ways import COPIED_ROWS, Way, filled

BEGINNING = datetime(2001, 1, 1, tzinfo=UTC)
BEHIND = timedelta(seconds=10)  # the word "behind" sets the clock of a writer back by this amount

GID = "inorder_check_{}"
STATEMENTS = {
    "draw": "SELECT nextval('ids')", "savepoint": "SAVEPOINT s", "undo": "ROLLBACK TO s", "release": "RELEASE s",
    "elsewhere": "INSERT INTO elsewhere VALUES (1)", "commit": "COMMIT", "rollback": "ROLLBACK",
    "prepare": f"PREPARE TRANSACTION '{GID}'", "commit_prepared": f"COMMIT PREPARED '{GID}'",
}  # fmt: skip
CHANGE = "UPDATE events SET {} = :created_at WHERE id = :row"
CHANGES = {
    "update": CHANGE.format("updated_at"), "update_first": CHANGE.format("updated_at"),
    "change_key": CHANGE.format("id = nextval('ids'), updated_at"),
    "delete": "DELETE FROM events WHERE id = :row", "truncate": "TRUNCATE events",
}  # fmt: skip
ENDS = ("commit", "rollback", "commit_prepared")


@dataclass
class World:
    """State shared by all actors: the clock in seconds, the number of the last event, and the history."""

    clock: int = 0
    moment: int = 0
    row: int = 1  # the number of the initial row that was changed last
    history: History = field(default_factory=History)

    def tick(self) -> int:
        self.moment += 1
        return self.moment

    def now(self, behind: timedelta = timedelta()) -> str:
        return f"{BEGINNING + timedelta(seconds=self.clock) - behind:%Y-%m-%d %H:%M:%S+00}"


class Actor(ABC):
    def __init__(self, name: str, world: World, source: Session | Reader) -> None:
        self.name, self.world, self.source = name, world, source
        self.words: deque[str] = deque()
        self.busy, self.waits_for = False, tuple[str, ...]()

    def go_on(self, blockers: Callable[[int], tuple[str, ...]]) -> None:
        while self.busy or self.words:
            if not self.busy:
                self.word = self.words.popleft()
                self.busy, self.waits_for = self.start(self.word), ()
                if not self.busy:
                    continue
            if blocking := self.source.wait(blockers):
                if not self.waits_for:
                    self.happened(self.word, self.source.last_sql, blocking)
                self.waits_for = blocking
                return
            says = self.end(self.word)
            self.happened(says, "" if self.waits_for else self.source.last_sql, ())
            self.busy = False

    def happened(self, says: str, sql: str, waits_for: tuple[str, ...]) -> None:
        self.world.history.events.append(Event(self.name, says, sql, waits_for))

    def close(self) -> None:
        self.source.close()

    @abstractmethod
    def start(self, word: str) -> bool:
        """Send the statement of a word. Return False if the word needs no statement."""

    @abstractmethod
    def end(self, word: str) -> str:
        """Fetch the result of the statement, and return a description of what the word did."""


class Writer(Actor):
    def __init__(self, name: str, world: World, session: Session, way: Way) -> None:
        super().__init__(name, world, session)
        self.session, self.way, self.prepared = session, way, False
        self.clear()

    def clear(self) -> None:
        self.open: Written | None = None
        self.drawn: str | None = None
        self.behind, self.failed, self.begins = timedelta(), False, False

    def close(self) -> None:
        """Roll back a prepared transaction, which would keep its locks, and close the session."""
        if self.prepared:
            self.session.run(f"ROLLBACK PREPARED '{GID.format(self.name)}'")
        super().close()

    def start(self, word: str) -> bool:
        if word == "wait":
            self.happened("waits a minute", "", ())
            return False
        if word == "behind":
            self.behind = BEHIND
            return False
        if self.failed:
            if word in ENDS:
                self.clear()
            return False
        self.session.send(self.sql(word))
        return True

    def sql(self, word: str) -> str:
        begin = ""
        self.begins = word != "draw" and self.open is None
        if self.begins:
            self.open = Written(self.name, self.world.tick())
            self.world.history.transactions.append(self.open)
            self.created, self.saved, begin = self.world.now(self.behind), 0, f"{self.way.begin}; "
        if word in CHANGES:
            self.world.row = self.world.row % COPIED_ROWS + 1
            self.row = 1 if word == "update_first" else self.world.row
            return begin + filled(CHANGES[word], {"created_at": self.created, "row": str(self.row)})
        if word != "insert":
            return begin + STATEMENTS[word].format(self.name)
        id_text = f"'{self.drawn}'" if self.drawn else "nextval('ids')"
        return begin + filled(self.way.insert.replace(":id", id_text), {"created_at": self.created})

    def end(self, word: str) -> str:
        try:
            answer = self.session.answer()
        except FailedError as error:
            return self.fail(word, str(error))
        says = ("begin, " if self.begins else "") + word.replace("_", " ")
        if word == "draw":
            self.drawn = str(answer.rows[0][0])
            return f"draws {self.drawn}"
        assert self.open is not None
        if word == "insert":
            self.drawn = None
            self.open.keys += [str(row[0]) for row in answer.rows]
            return f"{says} {self.open.keys[-1]}"
        if word in CHANGES:
            return f"{says} {self.row}"
        if word == "savepoint":
            self.saved = len(self.open.keys)
        if word == "undo":
            del self.open.keys[self.saved :]
        if word in ("prepare", *ENDS):
            self.prepared = word == "prepare"
        if word in ENDS:
            self.finish(word != "rollback")
        return says

    def finish(self, committed: bool) -> None:
        assert self.open is not None
        self.open.ended, self.open.committed, self.open.clock = self.world.tick(), committed, self.world.clock
        self.clear()

    def fail(self, word: str, reason: str) -> str:
        self.session.run("ROLLBACK")
        self.finish(False)
        self.failed = word not in ENDS
        return f"{word} fails: {reason}"


class Polls(Actor):
    def __init__(self, world: World, reader: Reader) -> None:
        super().__init__(READER, world, reader)
        self.reader, self.step = reader, 0

    def start(self, word: str) -> bool:
        self.kill = word == KILLED
        if self.step == 0:
            self.poll = Polled(self.world.tick(), clock=self.world.clock, killed=self.kill)
        self.reader.begin(self.step, self.world.now(), self.kill)
        return True

    def end(self, word: str) -> str:
        keys = self.reader.rows(self.step, self.kill)
        step = f" {self.step + 1}/{self.reader.statements}" if self.reader.statements > 1 else ""
        self.step += 1
        if keys is None:
            return f"poll{step}"
        self.step = 0
        self.poll.ended, self.poll.keys = self.world.tick(), keys
        self.world.history.polls.append(self.poll)
        return f"poll{step}, killed before it stores its rows" if self.kill else f"poll{step}: {' '.join(keys) or '-'}"
