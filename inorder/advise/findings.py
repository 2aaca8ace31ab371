"""Findings about a database, as data: evidence, cost, remedy and risk, how to verify and how to measure it."""

import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from itertools import groupby
from math import ceil, fsum, inf, log2

from inorder.advise import uuids
from inorder.advise.cost import KINDS, ORDERED, RANDOM, Cost, Load, Other, Savings, compared
from inorder.advise.facts import COUNTERS, TEXT_TYPES, UUID_TYPES, ColumnFacts, Facts, IndexFacts, Leaf
from inorder.advise.statements import Mention, counted, polled
from inorder.connection.database import identifier, literal
from inorder.lab.analysis.model import LEAF_FILLFACTOR, LITTLE, PAGE, index_tuple, leaf_capacity
from inorder.text import plural
from inorder.units import size_text, time_text

WORDS = tomllib.loads(files("inorder").joinpath("advise/findings.toml").read_text(encoding="utf-8"))
IDS = tuple(WORDS)
TEXT_KEY = 40  # bytes of a UUID as text in an index: 32 or 36 characters and a header, aligned
LEAST_CALLS = 10  # a statement with fewer calls is taken for somebody's ad-hoc query
LEAST_COUNT = 0.01  # seconds; a faster count is not reported
LEAST_GAIN = 0.1  # an index that would shrink by a smaller share is not rebuilt
TIMES, NUMBERS = ("timestamp", "timestamptz"), ("int2", "int4", "int8")
GUARDED = "Adds a column, an index, and a guard that keeps the table insert-only; inorder prepare does it online."
LOGGED = "Rows are {changed}: inorder prepare --changes adds triggers, and for each statement a row in a log."
EXACT = "Adds a column, an index, and a guard that keeps the table insert-only, and counts it once."
ESTIMATED = "An estimate, of the last VACUUM or ANALYZE: an exact count excludes updates and deletes."
SHOWN = 3  # statements, of several
SURE_BITS = 7  # one in 2^7 that a random key begins with as many ones as keys that are to come after all


@dataclass(frozen=True)
class Evidence:
    what: str
    source: str


@dataclass(frozen=True)
class Finding:
    """``saves``: bytes of WAL a day, or of storage, to order findings. ``costs``: one for each kind of key."""

    id: str
    table: str
    what: str
    cost: str
    risk: str
    verify: str
    measure: str
    page: str
    evidence: tuple[Evidence, ...]
    remedy: tuple[str, ...]
    saves: float = 0.0
    costs: tuple[Cost, ...] = ()


@dataclass(frozen=True)
class Left:
    """A table with random keys that would save little, and the reason to leave it as it is."""

    table: str
    why: str


@dataclass(frozen=True)
class Keyed:
    """A table or partition, and its key: the index, the column, and the kind of its keys."""

    leaf: Leaf
    index: IndexFacts
    column: ColumnFacts
    keys: uuids.Keys

    @property
    def is_text(self) -> bool:
        return self.column.type in TEXT_TYPES


def finding(
    id: str, table: str, evidence: Sequence[Evidence], remedy: Sequence[str], saves: float = 0.0,
    costs: tuple[Cost, ...] = (), **values: object,
) -> Finding:  # fmt: skip
    values |= {"table": table, "shell": shlex.quote(table), "literal": literal(table)}
    texts = {name: text.format(**values) for name, text in WORDS[id].items()} | {"page": f"docs/advice.md#{id}"}
    return Finding(id, table, **texts, evidence=tuple(evidence), remedy=tuple(remedy), saves=saves, costs=costs)


def function(facts: Facts, name: str) -> str:
    return identifier(facts.server.inorder, name) if facts.server.inorder else name


def installed(facts: Facts) -> list[str]:
    return [] if facts.server.inorder else ["CREATE EXTENSION inorder"]


def prepared(facts: Facts, table: str, name: str, first: str = "") -> list[str]:
    shell = f"/* From a shell: inorder prepare {shlex.quote(table)}. Or run what this returns: */"
    prepare = f"{shell} SELECT {function(facts, 'feed_prepare')}({literal(table)})"
    return [*installed(facts), prepare, f"SELECT {function(facts, name)}({first}{literal(table)})"]


def logged(facts: Facts, table: str) -> list[str]:
    shell = f"/* From a shell: inorder prepare {shlex.quote(table)} --changes --feed reader. Or: */"
    log = f"{function(facts, 'changes_enable')}({literal(table)})"
    return [*installed(facts), f"{shell} SELECT {function(facts, 'feed_create')}('reader', {log})"]


def keyed(facts: Facts) -> list[Keyed]:
    """The keys of all tables. A column of a composite key counts as the key if its values are nearly unique."""
    found, now = [], datetime.now(UTC)
    for leaf, (index, column) in [(leaf, leaf.key) for leaf in facts.leaves if leaf.key]:
        known = leaf.statistic(column)
        keys = uuids.keys_of(known.found, column.makers, known.correlation, now)
        if index.columns == 1 or known.distinct_values <= -0.5 or (keys.kind and not known.distinct_values):
            found.append(Keyed(leaf, index, column, keys))
    return found


def by_table(every: Sequence[Keyed], kind: str) -> Iterator[list[Keyed]]:
    for _, some in groupby((one for one in every if one.keys.kind == kind), key=lambda one: one.leaf.quoted):
        yield list(some)


def evidence_of_keys(facts: Facts, some: Sequence[Keyed]) -> tuple[Evidence, ...]:
    rows, inserted, updated, hot = (fsum(getattr(one.leaf, name) for one in some) for name in ("rows", *COUNTERS[:3]))
    seen, keys = some[0].leaf.statistic(some[0].column).found, some[0].keys
    share = f"{100 * keys.share:.0f} % of version 7" if keys.share else keys.kind
    since = min((one.keys.since for one in some if one.keys.since), default=None)
    updates = f", {updated:,.1f} updated, {100 * hot / updated:.0f} % of them HOT" if updated else ""
    return (
        Evidence(f"keys: {share}" + (f", since {since:%Y-%m-%d} at the latest" if since else ""),
                 f"{plural(len(seen), 'value')} of pg_stats or a sample" if seen else "the column's default"),
        Evidence(f"{rows:,.0f} rows", "pg_class, as of the last VACUUM or ANALYZE"),
        Evidence(f"{inserted:,.1f} rows inserted a second{updates}", f"pg_stat_user_tables, {facts.counted}"),
    )  # fmt: skip


def load_of(one: Keyed, facts: Facts, of_all: float) -> Load:
    """Memory is divided among the indexes of random keys by their size."""
    leaf, others = one.leaf, []
    for index in leaf.indexes:
        known = leaf.statistics.get(index.first)
        distinct = known.distinct_values if known else 0.0
        values = (distinct if distinct >= 0 else -distinct * leaf.rows) or index.pages
        hot = 1.0 if known and abs(known.correlation or 0) >= uuids.RISING else min(index.pages, values)
        others += [Other(index.pages, hot)] if index is not one.index and index.method != "brin" else []
    memory = max(PAGE, facts.server.cache_bytes * one.index.pages * PAGE / max(PAGE, of_all))
    return Load(
        leaf.rows, leaf.pages, leaf.toast_pages, leaf.inserted, leaf.updated, max(0.0, leaf.updated - leaf.hot),
        leaf.deleted, TEXT_KEY if one.is_text else 0, tuple(others), memory, facts.checkpoint,
    )  # fmt: skip


def random_keys(facts: Facts, every: Sequence[Keyed], least: float) -> Iterator[Finding | Left]:
    of_all = fsum(one.index.pages * PAGE for one in every if one.keys.kind == uuids.RANDOM)
    for partitions in by_table(every, uuids.RANDOM):
        some = [one for one in partitions if one.leaf.inserted and one.leaf.is_logged and 0 <= one.leaf.rows < inf]
        if not some or not facts.server.has_images:
            continue
        first, table = some[0], some[0].leaf.quoted
        found = compared([load_of(one, facts, of_all) for one in some], KINDS[first.is_text :])
        if found.saved_per_day < least:
            yield Left(table, f"ordered keys would save {size_text(found.saved_per_day)} of WAL a day")
        elif found.least_share < 1 - 1 / LITTLE:
            yield Left(table, f"the key costs little: ordered keys would save {shares(found)} of the table's WAL")
        else:
            now, ordered = (next(cost for cost in found.costs if cost.kind == kind) for kind in (RANDOM, ORDERED))
            yield finding(
                "random-key", table, evidence_of_keys(facts, some), switched(facts, first), found.saved_per_day,
                found.costs, column=first.column.name, index=first.index.name,
                size=size_text(PAGE * fsum(one.index.pages for one in some)),
                wal=size_text(now.wal_bytes_per_day), reads=f"{now.reads_per_second:,.0f}",
                ordered_wal=size_text(ordered.wal_bytes_per_day), ordered_reads=f"{ordered.reads_per_second:,.0f}",
                ordered_size=size_text(ordered.index_bytes), share=shares(found),
                ones=min(48, max(16, ceil(log2(1 + max(one.leaf.rows for one in some))) + SURE_BITS)),
                server=f" The whole server writes {size_text(facts.server.wal)} a day." if facts.server.wal else "",
            )  # fmt: skip


def shares(found: Savings) -> str:
    least, most = round(100 * found.least_share), round(100 * found.most_share)
    return f"{least} %" + (f" ({most} % if updates take new rows only)" if most > least else "")


def switched(facts: Facts, one: Keyed) -> list[str]:
    is_core = facts.server.version >= 180000 and not facts.server.inorder
    made = "uuidv7()" if is_core else f"{function(facts, 'uuid_v7_nextval')}()"
    if one.is_text:
        plain = one.leaf.statistic(one.column).width == 33
        made = f"replace({made}::text, '-', '')" if plain else f"{made}::text"
    altered = f"ALTER TABLE {one.leaf.quoted} ALTER COLUMN {identifier(one.column.name)} SET DEFAULT {made}"
    return [altered] if is_core else [*installed(facts), altered]


def mixed_keys(facts: Facts, every: Sequence[Keyed], least: float) -> Iterator[Finding]:
    for some in by_table(every, uuids.MIXED):
        per_page = LEAF_FILLFACTOR * leaf_capacity("v7", TEXT_KEY if some[0].is_text else 0)
        now = PAGE * fsum(one.index.pages for one in some)
        saved = now - fsum(one.leaf.rows for one in some) / per_page * PAGE
        if saved >= max(least, LEAST_GAIN * now):
            yield finding(
                "mixed-keys", some[0].leaf.quoted, evidence_of_keys(facts, some),
                [f"REINDEX INDEX CONCURRENTLY {identifier(one.leaf.leaf_schema, one.index.name)}" for one in some],
                saved, column=some[0].column.name, size=size_text(now), saved=size_text(saved),
            )  # fmt: skip


def text_uuids(facts: Facts, _every: Sequence[Keyed], least: float) -> Iterator[Finding]:
    found: dict[tuple[str, str], list[tuple[Leaf, ColumnFacts]]] = {}
    for leaf in facts.leaves:
        for column in leaf.columns.values():
            seen = leaf.statistic(column).found if column.type in TEXT_TYPES else []
            if len(seen) >= uuids.LEAST_VALUES and all(map(uuids.digits, seen)):
                found.setdefault((leaf.quoted, column.name), []).append((leaf, column))
    for (table, name), some in found.items():
        width = some[0][0].statistic(some[0][1]).width or 37
        in_table = fsum(max(0.0, leaf.rows) for leaf, _ in some) * (width - 16)
        pages = fsum(index.pages for leaf, one in some for index in leaf.indexes if index.first == one.number)
        in_indexes = pages * PAGE * (1 - index_tuple("v7") / index_tuple("v7", TEXT_KEY))
        altered = "ALTER TABLE {0} ALTER COLUMN {1} DROP DEFAULT, ALTER COLUMN {1} TYPE uuid USING {1}::uuid"
        if in_table + in_indexes >= least:
            yield finding(
                "text-uuid", table, [Evidence(f"{width - 1} characters in each of the values seen", "pg_stats")],
                [altered.format(table, identifier(name))], in_table + in_indexes, column=name, characters=width - 1,
                in_table=size_text(in_table), in_indexes=size_text(in_indexes),
            )  # fmt: skip


@dataclass
class Read:
    """A table, one of its partitions, a column or "", and the totals of all statements that read it."""

    leaf: Leaf
    column: str
    texts: list[str] = field(default_factory=list)
    calls: float = 0.0
    seconds: float = 0.0

    @property
    def evidence(self) -> list[Evidence]:
        each = f"{self.calls:,.0f} calls, {1000 * self.seconds / self.calls:,.1f} ms each"
        return [Evidence(text, "pg_stat_statements") for text in (*self.texts[:SHOWN], each)]


def reads(facts: Facts, find: Callable[[str], Mention | None]) -> list[Read]:
    """Frequent statements, grouped by table (if it exists) and column."""
    found: dict[tuple[str, str], Read] = {}
    largest = {name: leaf for leaf in sorted(facts.leaves, key=lambda one: one.rows)
               for name in (("", leaf.name), (leaf.schema, leaf.name))}  # fmt: skip
    for statement in (one for one in facts.statements if one.calls >= LEAST_CALLS):
        place = find(statement.text)
        if place and (leaf := largest.get((place.schema, place.table))):
            read = found.setdefault((leaf.quoted, place.column), Read(leaf, place.column))
            read.texts.append(" ".join(statement.text.split()))
            read.calls += statement.calls
            read.seconds += statement.seconds
    return list(found.values())


def written(facts: Facts, table: str, name: str) -> float:
    return fsum(leaf.counted[name] for leaf in facts.leaves if leaf.quoted == table)


def readers(facts: Facts, _every: Sequence[Keyed], _least: float) -> Iterator[Finding]:
    for read in reads(facts, polled):
        leaf, table = read.leaf, read.leaf.quoted
        column = next((one for one in leaf.columns.values() if one.name == read.column), None)
        inserted = written(facts, table, "inserted")
        if column is None or column.type not in TIMES + NUMBERS + UUID_TYPES or not inserted:
            continue
        changed = " or ".join(what for what in ("updated", "deleted") if written(facts, table, what))
        remedy = logged(facts, table) if changed else prepared(facts, table, "feed_create", "'reader', ")
        rows = Evidence(f"{inserted:,.0f} rows inserted", f"pg_stat_user_tables, {facts.counted}")
        yield finding(
            "polling-reader", table, remedy=remedy, column=read.column, way="created" if column.type in TIMES else "id",
            evidence=[*read.evidence, rows],
            done=LOGGED.format(changed=changed) if changed else GUARDED,
        )  # fmt: skip
        if column.sequence:
            name = identifier(*column.sequence)
            evidence = [*read.evidence, Evidence(f"CACHE {column.cached} of {name}", "pg_sequence")]
            remedy = [f"ALTER SEQUENCE {name} CACHE 1", *remedy]
            yield finding("cached-sequence", table, evidence, remedy, column=read.column, cached=column.cached)


def counts(facts: Facts, _every: Sequence[Keyed], _least: float) -> Iterator[Finding]:
    for read in (one for one in reads(facts, counted) if one.seconds / one.calls >= LEAST_COUNT):
        table = read.leaf.quoted
        changes = written(facts, table, "updated") + written(facts, table, "deleted")
        estimate = [f"SELECT reltuples FROM pg_class WHERE oid = {literal(table)}::regclass"]
        yield finding(
            "count-all", table, read.evidence, estimate if changes else prepared(facts, table, "exact_count_start"),
            effect=ESTIMATED if changes else EXACT, seconds=time_text(read.seconds),
            after=estimate[0] if changes else f"SELECT {function(facts, 'exact_count')}({literal(table)})",
            each=f"{1000 * read.seconds / read.calls:,.1f}",
        )  # fmt: skip


RULES = (random_keys, mixed_keys, text_uuids, readers, counts)


def advice_of(facts: Facts, least: float) -> tuple[list[Finding], list[Left]]:
    """Findings ordered by savings, and tables to leave as they are. Findings below ``least`` bytes are omitted."""
    every = keyed(facts)
    found = [one for rule in RULES for one in rule(facts, every, least)]
    findings = [one for one in found if isinstance(one, Finding)]
    return sorted(findings, key=lambda one: -one.saves), [one for one in found if isinstance(one, Left)]
