"""Measure the savings of ordered keys in a table like yours, with its columns, indexes and load."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from operator import sub
from pathlib import Path
from typing import ClassVar

from inorder.connection.database import Connection, execute, one_row, query
from inorder.errors import InorderError, InputError
from inorder.lab.experiments.like import report
from inorder.lab.experiments.like.copy import LikeKind, Mix, fitting, key_column, newest_of, require_no_variables
from inorder.lab.experiments.like.plan import USUAL, LikePlan, shares
from inorder.lab.experiments.like.sample import take_sample
from inorder.lab.experiments.like.shape import TableFacts, draw_of, read_table, resolved, source
from inorder.lab.instruments import pgbench
from inorder.lab.plan.capabilities import Adapted, Capabilities, OwnRun
from inorder.lab.plan.keys import KEY_KINDS, KeyKind
from inorder.lab.plan.turn import Measured, Metrics, Stage, every_round, single
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables.insert_tables import FILL_BATCH, INSERT, InsertTables, load_of
from inorder.lab.targets.server_settings import Small
from inorder.lab.targets.target import Target
from inorder.text import quoted

OTHER = "other"
SAMPLE_SHARE = 8  # the sample uses at most 1/8 of the memory
# Sampled rows should be looked up by number, because a hash table of wide rows would not fit into work_mem.
FILL_SETTINGS = {"enable_hashjoin": "off", "enable_mergejoin": "off"}


class LikeTables(InsertTables):
    def __init__(self, target: Target, plan: LikePlan) -> None:
        kinds = {name: KEY_KINDS[name] for name in plan.kinds}
        super().__init__(target, kinds, Small(plan.memory_bytes), plan.fill_workers,
                         {"synchronous_commit": plan.synchronous_commit})  # fmt: skip
        self.plan = plan

    def measure_so_many(self, name: str, seed: int, show: Callable[[str], None]) -> Measured:
        load = load_of(self.plan.clients, self.plan.threads, 0, self.plan.transactions)
        return self.measure(name, load, seed, show, self.plan.dump_wal)

    @property
    def facts(self) -> TableFacts:
        assert self.plan.found
        return self.plan.found

    def begin(self, connection: Connection) -> None:
        execute(connection, *self.facts.shape.enums)
        sample_rows = max(1, min(self.plan.sample, int(self.plan.memory_bytes / SAMPLE_SHARE / self.facts.own_bytes)))
        with source(self.plan.source) as user_session:
            draw = draw_of(user_session, self.plan.table)
            sample = take_sample(connection, user_session, draw, self.facts.shape, sample_rows, self.plan.rows)
        self.kinds = {name: LikeKind(**vars(KEY_KINDS[name]), sample=sample) for name in self.plan.kinds}

    def kind(self, name: str) -> LikeKind:
        kind = self.kinds[name]
        assert isinstance(kind, LikeKind)
        return kind

    def fill_batch(self, connection: Connection, kind: KeyKind, rows: int) -> int:
        filled = self.rows[kind.name]
        border = newest_of(rows) if filled < newest_of(rows) else rows
        batch = min(FILL_BATCH // 10, border - filled)
        for name, value in FILL_SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.execute(self.kind(kind.name).fill(filled, batch, rows, self.plan.touch == "recent").encode())
        return batch

    def script(self, kind: KeyKind) -> Path:
        """Write the pgbench script of the load. By default, an update changes columns that have no index."""
        shape, file = self.facts.shape, self.target.folder / f"like_{kind.name}.sql"
        indexed = {name for index in shape.indexes for name in index.mentions} | shape.dividing
        free = [column.name for column in shape.sampled if column.name not in shape.dividing]
        changed = self.plan.update or tuple(name for name in free if name not in indexed) or tuple(free)
        with self.target.connect() as connection:
            (keys,) = one_row(connection, f"SELECT max(n) FROM {self.kind(kind.name).keys}")
        mix = Mix(*shares(self.plan.mix), changed)
        file.write_text(self.kind(kind.name).script(mix, keys), encoding="utf-8")
        return file

    def fill_one(self, kind: KeyKind, rows: int, stop: threading.Event) -> Metrics:
        """Fill a table, then VACUUM it, so that no hint bits are set during measurements."""
        metrics = super().fill_one(kind, rows, stop)
        if stop.is_set():
            return metrics
        with self.target.connect() as connection:
            for name in (kind.table, self.kind(kind.name).keys):
                connection.execute(f"VACUUM (FREEZE, ANALYZE) {name}".encode())
            size = self.key_bytes(connection, kind)
        return metrics | self.sizes_of(kind) | {"key_bytes": size}

    def key_bytes(self, connection: Connection, kind: KeyKind) -> float:
        names = "SELECT string_agg(format('pg_column_size(%%I)', attname), ' + ') FROM pg_attribute WHERE attrelid = %s"
        (size,) = one_row(connection, f"{names}::regclass", (kind.index,))
        (mean,) = one_row(connection, f"SELECT avg({size}) FROM (SELECT * FROM {kind.table} LIMIT 1000) AS first")
        return 0.0 if mean is None else -(-float(mean) // 8) * 8

    def relations(self, kind: KeyKind) -> list[tuple[str, str, int]]:
        with self.target.connect() as connection:
            return connection.execute(query("like_relations"), {"table": kind.table}).fetchall()

    def sizes_of(self, kind: KeyKind) -> Metrics:
        sizes: Metrics = {}
        for relation, _, size in self.relations(kind):
            sizes[f"bytes {relation}"] = sizes.get(f"bytes {relation}", 0) + size
        rises = float(self.kind(kind.name).sample.key_rises)
        return sizes | {"index_bytes": sizes.get(f"bytes {kind.name}_pkey", 0), "key_rises": rises}

    def measure(
        self, name: str, load: pgbench.Load, seed: int, show: Callable[[str], None], dump_wal: bool = False
    ) -> Measured:
        kind = self.kinds[name]
        before = self.changes(kind)
        measured = super().measure(name, load, seed, show, dump_wal)
        inserted, updated, hot = (list(map(sub, *pair)) for pair in zip(self.changes(kind), before, strict=True))
        if not any(inserted):
            raise InorderError(f"the load inserted no row into {kind.table}")
        self.rows[name] += int(sum(inserted)) - int(measured.metrics["inserts"])
        metrics = {"inserted": sum(inserted), "updated": sum(updated), "hot": sum(hot)}
        series = {"partition_rows": before[0], "partition_inserted": inserted,
                  "partition_entries": list(map(sub, updated, hot))}  # fmt: skip
        return Measured(measured.metrics | metrics, measured.series | series)

    def changes(self, kind: KeyKind) -> list[list[float]]:
        with self.target.connect() as connection:
            self.target.wal(connection)  # waits until all sessions have reported their statistics
            rows = connection.execute(query("like_rows"), {"table": kind.table}).fetchall()
        return [[float(value) for value in values] for values in zip(*rows, strict=True)]

    def counted(self, connection: Connection, kind: KeyKind) -> Metrics:
        return dict(self.target.wal(connection))

    def in_wal(self, connection: Connection, kind: KeyKind, place: str) -> Measured:
        by_file = self.target.wal_by_file(connection, place)
        relations = {file: relation for relation, file, _ in self.relations(kind)}
        metrics: Metrics = {}
        for file, figures in by_file.items():
            for figure, value in figures.items():
                name = f"wal_{figure} {relations.get(file, OTHER)}"
                metrics[name] = metrics.get(name, 0) + value
        return Measured(metrics)


class LikeExperiment(Experiment[LikePlan]):
    question = "What would ordered keys save here?"
    studies = ("P3",)
    role = "inorder_like"  # the tables are created from definitions that come from another server
    own = OwnRun(unseen="the contents of the WAL (pg_waldump)")
    reports: ClassVar = report

    @classmethod
    def completed(cls, plan: LikePlan, own: bool) -> Adapted[LikePlan]:
        if not plan.table:
            raise InputError("no table was given; HINT: Use --table to name the table to imitate.")
        with source(plan.source) as connection:
            facts = read_table(connection, plan.table, plan.key, plan.leave_out)
            dsn = resolved(connection)
        require_unchanged(plan, facts)
        require_no_variables(facts.shape)
        column = facts.shape.column(facts.shape.key)
        kinds = fitting(plan.kinds if plan.kinds != USUAL or key_column("v7", column) else ("bigint", "random"), column)
        mix = plan.mix or f"insert={facts.inserted or 1},update={facts.updated}"
        if unknown := set(plan.update) - {column.name for column in facts.shape.sampled}:
            raise InputError(f"--update: the table has no column {', '.join(sorted(unknown))} that can be changed")
        omitted = ", ".join(KEY_KINDS[kind].label for kind in plan.kinds if kind not in kinds and plan.kinds != USUAL)
        completed_plan = replace(plan, source=dsn, key=facts.shape.key, kinds=kinds, mix=mix, found=plan.found or facts)
        note = f"Left out, since {column.name} is {column.type}: {omitted}." if omitted else ""
        return Adapted(completed_plan, tuple(filter(None, (*facts.notes, note))))

    @classmethod
    def room(cls, plan: LikePlan) -> tuple[int, str]:
        rows = plan.rows + plan.rounds * plan.transactions
        return int(rows * len(plan.kinds) * plan.row_bytes * 3), f"{rows:,} rows of {len(plan.kinds)} kinds of key"

    @classmethod
    def adapt(cls, plan: LikePlan, can: Capabilities) -> Adapted[LikePlan]:
        """Leave out figures from WAL files, and refuse a role that may read files or run programs.

        With such a role, definitions that come from the server of the table could do the same.
        """
        if can.leaves_database:
            raise InputError(
                f"--dsn: role {quoted(can.role)} may read files or run programs, and definitions that are copied from "
                "the server of the table could do the same\n"
                "HINT:  Use a role that is not a superuser and owns nothing in that database."
            )
        return super().adapt(plan, can).but(dump_wal=False)

    @cached_property
    def tables(self) -> LikeTables:
        return LikeTables(self.target, self.plan)

    def prepare(self) -> None:
        self.tables.serve_for_measuring()

    def stages(self) -> list[Stage]:
        turns = [
            single(INSERT, kind, self.plan.rows, KEY_KINDS[kind].label,
                   partial(self.tables.measure_so_many, kind, show=self.show_step))
            for kind in self.plan.kinds
        ]  # fmt: skip
        begin = self.tables.serve_for_measuring
        return [self.tables.fill_stage(self.plan.rows), Stage(every_round(turns), self.plan.rounds, begin=begin)]

    def outcome(self, metrics: Metrics) -> str:
        if "tps" not in metrics:
            return f"{metrics['seconds']:.1f} s"
        wal = f", {metrics['wal_bytes'] / metrics['inserts']:,.0f} B of WAL each" if "wal_bytes" in metrics else ""
        return f"{metrics['tps']:,.0f} transactions/s{wal}"


def require_unchanged(plan: LikePlan, facts: TableFacts) -> None:
    if plan.found and plan.found.shape != facts.shape:
        raise InputError(f"the table {plan.table} has changed since the run began: its columns or indexes differ")
