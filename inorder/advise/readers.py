"""Findings about statements: polling readers, and counts of all rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum

from inorder.advise import uuids
from inorder.advise.facts import UUID_TYPES, ColumnFacts, Facts, Leaf
from inorder.advise.finding import Evidence, Finding, finding, function, logged, prepared, with_inorder
from inorder.advise.polls import Poll, Table, Understood
from inorder.connection.database import identifier, literal
from inorder.units import time_text

LEAST_COUNT = 0.01  # seconds; faster counts are not reported
TIMES, NUMBERS = ("timestamp", "timestamptz"), ("int2", "int4", "int8")
RISING = ("nextval", "now", "clock_timestamp", "statement_timestamp", "transaction_timestamp")
GUARDED = "Online, inorder prepare adds a column, an index, and a guard that keeps the table insert-only."
LOGGED = "Rows are {changed}: inorder prepare --changes adds triggers, which write a row to a log for each statement."
EXACT = "Adds a column, an index, and a guard that keeps the table insert-only, and counts the rows once."
ESTIMATED = "Returns an estimate, as of the last VACUUM or ANALYZE. An exact count would need an insert-only table."
SHOWN = 3  # maximum number of statements shown


@dataclass
class Read:
    """A table that is polled or counted: the poll (None for a count), and the totals of its statements."""

    leaf: Leaf
    poll: Poll | None
    texts: list[str] = field(default_factory=list)
    calls: float = 0.0
    seconds: float = 0.0

    @property
    def evidence(self) -> list[Evidence]:
        mean_text = f"{self.calls:,.0f} calls, {1000 * self.seconds / self.calls:,.1f} ms each"
        return [Evidence(text, "pg_stat_statements") for text in (*self.texts[:SHOWN], mean_text)]


def read_by(statement: Understood, by_name: Mapping[Table, Leaf]) -> Iterator[tuple[Leaf, Poll | None]]:
    """Yield the tables that a statement polls or counts.

    If a poll may read several tables, use the first table that has the polled column.
    """
    if statement.counted and (leaf := by_name.get(statement.counted)):
        yield leaf, None
    for poll in statement.polls:
        leaves = (by_name[name] for name in poll.tables if name in by_name)
        if leaf := next((leaf for leaf in leaves if leaf.column(poll.column)), None):
            yield leaf, poll


def reads(facts: Facts) -> list[Read]:
    """Return statements that poll or count an existing table, grouped by table and column."""
    by_column: dict[tuple[str, str], Read] = {}
    by_name = {name: leaf for leaf in sorted(facts.leaves, key=lambda leaf: leaf.rows)
               for name in (("", leaf.name), (leaf.schema, leaf.name))}  # fmt: skip
    for statement in facts.statements:
        for leaf, poll in read_by(statement.classification, by_name):
            read = by_column.setdefault((leaf.quoted, poll.column if poll else ""), Read(leaf, poll))
            if poll and read.poll and poll.ordered:
                read.poll = poll
            read.texts.append(" ".join(statement.text.split()))
            read.calls += statement.calls
            read.seconds += statement.seconds
    return list(by_column.values())


def written(facts: Facts, table: str, name: str) -> float:
    return fsum(leaf.counted[name] for leaf in facts.leaves if leaf.quoted == table)


def polling(
    poll: Poll, table: str, is_time: bool, evidence: Sequence[Evidence], changed: str, home: str | None = None
) -> Finding:  # fmt: skip
    way = "lag" if poll.late else "created" if is_time else "id"
    remedy = logged(home, table) if changed else prepared(home, table, "feed_create", "'reader', ")
    effect = LOGGED.format(changed=changed) if changed else GUARDED
    return finding("polling-reader", table, evidence, remedy, column=poll.column, way=way, done=effect)


def rises(leaf: Leaf, column: ColumnFacts) -> bool:
    """Return whether new rows have greater values in the column.

    They do if the default generates such values, or if the primary key begins with the column.
    """
    has_rising_default = any(name in RISING or name in uuids.MAKERS for name in column.makers)
    return has_rising_default or any(index.is_primary and index.first == column.number for index in leaf.indexes)


def readers(facts: Facts) -> Iterator[Finding]:
    for read in reads(facts):
        leaf, table, poll = read.leaf, read.leaf.quoted, read.poll
        column = leaf.column(poll.column) if poll else None
        inserted = written(facts, table, "inserted")
        if not poll or not column or column.type not in TIMES + NUMBERS + UUID_TYPES or not inserted:
            continue
        if not (poll.ordered or rises(leaf, column)):
            continue
        changed = " or ".join(change for change in ("updated", "deleted") if written(facts, table, change))
        rows = Evidence(f"{inserted:,.0f} rows inserted", f"pg_stat_user_tables, {facts.counted}")
        evidence = [*read.evidence, rows]
        poll_finding = polling(poll, table, column.type in TIMES, evidence, changed, facts.server.inorder)
        yield poll_finding
        if column.sequence:
            name = identifier(*column.sequence)
            evidence = [*read.evidence, Evidence(f"CACHE {column.cached} of {name}", "pg_sequence")]
            remedy = [f"ALTER SEQUENCE {name} CACHE 1", *poll_finding.remedy]
            yield finding("cached-sequence", table, evidence, remedy, column=column.name, cached=column.cached)


def counts(facts: Facts) -> Iterator[Finding]:
    slow = (read for read in reads(facts) if not read.poll and read.seconds / read.calls >= LEAST_COUNT)
    for read in slow:
        table = read.leaf.quoted
        changes = written(facts, table, "updated") + written(facts, table, "deleted")
        home = facts.server.inorder
        estimate = [f"SELECT reltuples FROM pg_class WHERE oid = {literal(table)}::regclass"]
        yield finding(
            "count-all", table, read.evidence, estimate if changes else prepared(home, table, "exact_count_start"),
            effect=ESTIMATED if changes else EXACT, seconds=time_text(read.seconds),
            after=estimate[0] if changes else with_inorder(
                home, f"SELECT {function(home, 'exact_count')}({literal(table)})")[-1],
            each=f"{1000 * read.seconds / read.calls:,.1f}",
        )  # fmt: skip
