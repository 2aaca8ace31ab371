"""Readers of five kinds. Each reader appends its rows to a file, and stores the file's length with its position."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from inorder.connection.database import Connection, one_row
from psycopg.conninfo import make_conninfo

from load.soak.world import TABLES, SoakWorld, Tokens, put, replace, tokens_in
from load.stress.readers import Plain, feed_read
from load.stress.stateless import Stateless, batch_rows
from load.stress.tails import PASSES
from world.role import transaction
from world.sql import numbers
from world.tables import MOVER, OWNER

PIECE = (1000, 1000)
TOKEN = re.compile(rb'"token": ?(\d+)')


class Kept(Plain):
    tables: tuple[str, ...] = TABLES
    seconds = 0.2  # between two polls
    world: SoakWorld

    def __init__(self, world: SoakWorld, kind: str, first: "Kept | None" = None) -> None:
        super().__init__(world, kind, PIECE, first.delivery if first else None)
        self.name = kind
        self.length = dict.fromkeys(self.tables, 0)

    def path(self, table: str) -> Path:
        return self.world.folder / f"{self.name}.{table}"

    def work(self) -> None:
        self.connect()
        self.recover()
        while not self.world.settled.wait(self.seconds):
            for table in self.tables:
                self.timed(table)
        self.drain()
        for table in self.tables:
            put(self.path(table), [], self.length[table])
        self.close()

    def recover(self) -> None:
        query = "SELECT coalesce(max(number), 0) FROM s_polls WHERE reader = %s"
        for table in self.tables:
            (self.length[table],) = numbers(self.connection, query, self.path(table).name)

    def keep(self, table: str, tokens: list[int]) -> int:
        """Append rows to the file, and its new length to s_polls, in the transaction that moves the position."""
        if not tokens:
            return self.length[table]
        length = put(self.path(table), tokens, self.length[table])
        self.connection.execute("INSERT INTO s_polls VALUES (%s, %s)", [self.path(table).name, length])
        return length

    def took(self, table: str, tokens: list[int], length: int) -> int:
        self.length[table] = length
        self.world.files.reached(self.name, tokens)
        return len(tokens)

    def poll(self, table: str) -> int | None:
        with transaction(self.connection):
            tokens = feed_read(self.connection, self.feed(table), table, self.max_rows(), self.owner)
            length = self.keep(table, tokens)
        return self.took(table, tokens, length)

    def delivered(self, table: str) -> Tokens:
        return tokens_in(self.path(table))


class NewConnection(Kept):
    """A reader that opens a new connection for each poll, as a role that may only read the tables."""

    owner = user = OWNER
    seconds = 1.0

    def make_feeds(self, connection: Connection) -> None:
        with self.session(self.world.primary) as session:
            super().make_feeds(session)

    def poll(self, table: str) -> int | None:
        self.close()
        self.connect()
        return super().poll(table)


class OfWorkers(Kept):
    def __init__(self, world: SoakWorld, number: int, first: "OfWorkers | None" = None) -> None:
        super().__init__(world, "workers", first)
        self.name = f"worker {number}"

    def poll(self, table: str) -> int | None:
        take = "SELECT number, token FROM feed_take_batch(%s, %s, %s)"
        number, token = one_row(self.connection, take, [self.feed(table), self.name, self.max_rows()])
        if number is None:
            return 0
        rows = f"SELECT token FROM feed_batch_rows(%s, %s, null::{table})"
        with transaction(self.connection):
            tokens = numbers(self.connection, rows, self.feed(table), number)
            length = self.keep(table, tokens)
            self.connection.execute("SELECT feed_finish_batch(%s, %s, %s)", [self.feed(table), number, token])
        return self.took(table, tokens, length) or None


class OwnPosition(Kept):
    def kept(self) -> Path:
        return self.world.folder / "own-position.json"

    def make_feeds(self, connection: Connection) -> None:
        start = "SELECT reader_start(%s)::text"
        replace(self.kept(), {table: [Stateless.text(connection, start, table), 0] for table in self.tables})

    def recover(self) -> None:
        self.positions: dict[str, list[str]] = json.loads(self.kept().read_text())
        self.length = {table: int(length) for table, (_, length) in self.positions.items()}

    def poll(self, table: str) -> int | None:
        position, _ = self.positions[table]
        following = "SELECT reader_next_batch(%s, %s::text::feed_position, %s)::text"
        batch = Stateless.text(self.connection, following, table, position, self.max_rows())
        tokens = batch_rows(self.connection, table, batch)
        advance = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"
        after = Stateless.text(self.connection, advance, position, batch)
        length = put(self.path(table), tokens, self.length[table])
        replace(self.kept(), self.positions | {table: [after, length]})
        self.positions[table] = [after, str(length)]
        return self.took(table, tokens, length)


class Tail(Kept):
    """Runs ``inorder tail --follow`` with output to a file. Delay is measured for rows before the saved position."""

    tables = TABLES[:1]
    process: subprocess.Popen[bytes] | None = None

    def make_feeds(self, connection: Connection) -> None:
        """Create no feeds: the tool stores the position in a file."""

    def start_process(self, *options: str) -> subprocess.Popen[bytes]:
        command = ["setpriv", "--pdeathsig", "KILL"]  # kills the tool when this process ends for any reason
        command += [sys.executable, "-m", "inorder", "tail", self.tables[0], "--position", "tail.position"]
        command += ["--dsn", make_conninfo(self.world.primary, user=MOVER), *options]
        folder = self.world.folder
        with (folder / "tail.jsonl").open("ab") as rows, (folder / "tail.errors").open("ab") as errors:
            return subprocess.Popen(command, cwd=folder, stdout=rows, stderr=errors, stdin=subprocess.DEVNULL)

    def work(self) -> None:
        place = self.saved()
        self.process = self.start_process("--follow")
        try:
            while not self.world.settled.wait(self.seconds):
                code = self.process.poll()
                assert code in (None, PASSES), f"inorder tail ended with {code}"
                if code == PASSES:  # the server stopped before the tool could connect
                    self.world.done["tail begun again"] += 1
                    self.process = self.start_process("--follow")
                place = self.look(place)
            self.process.terminate()
            self.process.wait()
            self.process = self.start_process()
            assert self.process.wait() == 0, "inorder tail failed to read the remaining rows"
        finally:
            self.process.kill()

    def saved(self) -> int:
        position = self.world.folder / "tail.position"
        output = json.loads(position.read_bytes()).get("output") if position.exists() else None
        return int(output["size"]) if output else 0

    def look(self, place: int) -> int:
        saved = self.saved()
        with (self.world.folder / "tail.jsonl").open("rb") as file:
            file.seek(place)
            self.world.files.reached(self.name, [*map(int, TOKEN.findall(file.read(saved - place)))])
        return saved

    def delivered(self, table: str) -> Tokens:
        arrays = [np.empty(0, np.int64)]
        with (self.world.folder / "tail.jsonl").open("rb") as file:
            while lines := file.readlines(1 << 24):
                arrays.append(np.fromstring(b" ".join(TOKEN.findall(b"".join(lines))).decode(), np.int64, sep=" "))
        return np.concatenate(arrays)


def readers(world: SoakWorld) -> list[Kept]:
    first = OfWorkers(world, 1)
    return [
        Kept(world, "feed_read"), NewConnection(world, "new connection"), OwnPosition(world, "own position"),
        Tail(world, "tail"), first, OfWorkers(world, 2, first),
    ]  # fmt: skip
