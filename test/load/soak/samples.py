"""Samples of the readers, statements, tables and processes of a soak, and curves of the samples over time."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from inorder.connection.database import Connection, connect, one_row
from inorder.lab.instruments.timing import PROC, stat_of

from load.soak.readers import Kept, NewConnection, Tail
from load.soak.world import TABLES, SoakWorld
from world.role import Role
from world.tables import MOVER, OWNER

# A curve is flat if its last values, and its values while a transaction is held open, are at most this multiple of its
# first value.
FLAT = 2.0
CURVES = {
    "rows": ("Rows", "rows a second"),
    "delay": ("Time from commit to reader, median", "ms"),
    "delay_p99": ("Time from commit to reader, 99th percentile", "ms"),
    "pages": ("Pages of a call", "pages"),
    "call": ("Time of a call in the server", "ms"),
    "state": ("Size of the state", "kB"),
    "row": ("Size of a row with its indexes", "bytes"),
    "cpu": ("CPU", "% of a core"),
    "memory": ("Private memory of a process", "MB"),
    "load": ("Load of the machine", "processes"),
}
WHOSE = {OWNER: " (new connection)", MOVER: " (tail)"}
STATEMENTS = r"""
SELECT r.rolname, f.name, round(sum(s.shared_blks_hit + s.shared_blks_read) / sum(s.calls), 1),
       round((sum(s.total_exec_time) / sum(s.calls))::numeric, 3)
FROM pg_stat_statements AS s JOIN pg_roles AS r ON r.oid = s.userid
CROSS JOIN LATERAL (SELECT substring(s.query FROM
    '(feed_read|feed_take_batch|feed_batch_rows|feed_finish_batch|reader_next_batch|reader_batch_rows|exact_count)\(')
) AS f(name) WHERE f.name IS NOT NULL AND s.query NOT LIKE '%count(*)%' GROUP BY 1, 2
"""
STATE = """
SELECT c.relname, pg_total_relation_size(c.oid) / 1024.0
FROM pg_class AS c WHERE c.relnamespace = 'inorder_internal'::regnamespace AND c.relkind = 'r'
"""
SIZE = """
SELECT coalesce(sum(pg_total_relation_size(relid)), pg_total_relation_size(%(t)s::regclass))
FROM pg_partition_tree(%(t)s)
"""
SESSIONS = f"""
SELECT CASE usename WHEN '{MOVER}' THEN 'tail, session' ELSE application_name || ', session' END, pid
FROM pg_stat_activity WHERE usename = '{MOVER}' OR application_name = ANY(%s)
"""

Sample = dict[str, Any]


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process: utime plus stime, the 14th and 15th fields of /proc/PID/stat."""
    fields = stat_of(process)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_megabytes(process: int) -> float:
    """Return the private memory of a process, without the server's shared buffers."""
    lines = (PROC / str(process) / "status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


class Sampler(Role):
    world: SoakWorld

    def __init__(self, world: SoakWorld, readers: Sequence[Kept], interval: float) -> None:
        super().__init__(world, "sampler")
        self.readers, self.interval = readers, interval
        self.cpu: dict[str, tuple[int, float]] = {}
        self.last = time.monotonic()
        self.rows = 0

    def work(self) -> None:
        with connect(self.world.superuser) as connection:
            connection.execute("SELECT pg_stat_statements_reset()")
            self.rows = sum(map(self.world.files.amount, TABLES))
            self.last = time.monotonic()
            while not self.world.stop.wait(self.interval):
                sample = self.sample(connection)
                with (self.world.folder / "samples.jsonl").open("a") as file:
                    file.write(json.dumps(sample) + "\n")
                self.world.files.forget_old()
                self.world.lanes_prepared.clear()

    def sample(self, connection: Connection) -> Sample:
        now = time.monotonic()
        passed, self.last = now - self.last, now
        curves: Sample = {curve: {} for curve in CURVES} | self.of_readers() | self.of_statements(connection)
        curves |= self.of_tables(connection, passed) | self.of_processes(connection, passed)
        at = round(self.world.before + now - self.world.began, 1)
        return {"at": at, "piece": self.world.piece, "act": self.world.act, **curves, "load": {"": os.getloadavg()[0]}}

    def of_readers(self) -> Sample:
        delays = {name: self.world.files.delays.pop(name) for name in [*self.world.files.delays]}
        return {
            curve: {
                name: round(float(np.quantile(seconds, share)) * 1000, 1) for name, seconds in delays.items() if seconds
            }
            for curve, share in (("delay", 0.5), ("delay_p99", 0.99))
        }

    def of_statements(self, connection: Connection) -> Sample:
        pages, call = {}, {}
        for role, name, blocks, milliseconds in connection.execute(STATEMENTS.encode()).fetchall():
            label = f"{name}{WHOSE.get(str(role), '')}"
            pages[label], call[label] = float(str(blocks)), float(str(milliseconds))
        connection.execute("SELECT pg_stat_statements_reset()")
        return {"pages": pages, "call": call}

    def of_tables(self, connection: Connection, passed: float) -> Sample:
        state = {str(name): float(str(kilobytes)) for name, kilobytes in connection.execute(STATE.encode())}
        sizes = {}
        for table in TABLES:
            (size,) = one_row(connection, SIZE, {"t": table})
            sizes[table] = round(float(size) / self.world.files.amount(table), 1)
        before, self.rows = self.rows, sum(map(self.world.files.amount, TABLES))
        return {"state": state, "row": sizes, "rows": {"committed": round((self.rows - before) / passed, 1)}}

    def of_processes(self, connection: Connection, passed: float) -> Sample:
        names = ["count", *(reader.name for reader in self.readers if not isinstance(reader, NewConnection))]
        processes = {str(name): int(str(pid)) for name, pid in connection.execute(SESSIONS.encode(), [names])}
        processes |= {r.name: r.process.pid for r in self.readers if isinstance(r, Tail) and r.process}
        cpu, memory = {}, {}
        for name, pid in (processes | {"this program": os.getpid()}).items():
            with suppress(OSError, StopIteration):  # the process has ended
                used, (last_pid, before) = cpu_seconds(pid), self.cpu.get(name, (0, 0.0))
                self.cpu[name] = (pid, used)
                memory[name] = round(own_megabytes(pid), 2)
                if last_pid == pid:
                    cpu[name] = round(100 * (used - before) / passed, 2)
        return {"cpu": cpu, "memory": memory}


@dataclass(frozen=True)
class Trend:
    curve: str
    line: str
    start: float
    held: float | None
    end: float

    @property
    def grows(self) -> float:
        """The factor by which a curve has grown, at the end or while a transaction is held open."""
        return max(self.end, self.held or 0) / self.start if self.start else 1.0


def figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def tenth(values: Sequence[float], last: bool) -> float:
    """Return the median of the first or last tenth of a curve.

    >>> tenth([5.0, 1.0, 7.0], last=True), tenth([5.0] * 10 + [1.0] * 10, last=True)
    (7.0, 1.0)
    """
    size = max(1, len(values) // 10)
    return median(values[-size:] if last else values[:size])


def trends(samples: Sequence[Mapping[str, Any]]) -> Iterator[Trend]:
    for curve in CURVES:
        for line in dict.fromkeys(name for sample in samples for name in sample[curve]):
            values = [sample[curve][line] for sample in samples if line in sample[curve]]
            pieces: dict[int, list[float]] = {}
            for sample in samples:
                if sample["act"] == "held" and line in sample[curve]:
                    pieces.setdefault(sample["piece"], []).append(sample[curve][line])
            held = max((tenth(held_values, last=True) for held_values in pieces.values()), default=None)
            yield Trend(curve, line, tenth(values, last=False), held, tenth(values, last=True))
