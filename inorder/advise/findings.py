"""Findings about the keys of a database, and all findings in the order of what they save."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from math import ceil, fsum, inf, log2

from inorder.advise import uuids
from inorder.advise.cost import (
    KINDS,
    ORDERED,
    RANDOM,
    UPDATED_ANYWHERE,
    UPDATED_NEWEST,
    Load,
    Other,
    Savings,
    after_switch,
    compared,
)
from inorder.advise.facts import COUNTERS, TEXT_TYPES, ColumnFacts, Facts, IndexFacts, Leaf
from inorder.advise.finding import Evidence, Finding, Left, finding, function, installed
from inorder.advise.readers import counts, readers
from inorder.connection.database import identifier
from inorder.lab.analysis.model import LEAF_FILLFACTOR, LITTLE, PAGE, index_tuple, leaf_capacity
from inorder.text import plural
from inorder.units import size_text

TEXT_KEY = 40  # bytes of a UUID as text in an index: 32 or 36 characters and a header, aligned
LEAST_SHARE = 1 - 1 / LITTLE  # a key that causes a smaller share of the table's WAL is left as it is
MANY_IMAGES = 0.5  # page images of an updated row; with more, rows of any age are updated
LEAST_GAIN = 0.1  # an index that would shrink by a smaller share is not rebuilt
SURE_BITS = 7  # one in 2^7 that a random key begins with as many ones as keys that are to come after all


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
        table = some[0].leaf.quoted
        loads = [load_of(one, facts, of_all) for one in some]
        updated, seen = updates_of(facts, [one.leaf for one in some])
        found = compared(loads, KINDS[some[0].is_text :], updated)
        if found.saved_per_day < least:
            yield Left(table, f"ordered keys would save {size_text(found.saved_per_day)} of WAL a day")
        elif found.most_share < LEAST_SHARE:
            yield Left(table, f"the key costs little: ordered keys would save {shares(found)} of the table's WAL")
        elif found.least_share < LEAST_SHARE:
            run = f"inorder lab run insert --like {shlex.quote(table)} --touch recent"
            why = (
                f"ordered keys would save {shares(found)} of its WAL. Where updates take new rows, {run} measures it. "
            )
            yield Left(table, why + "pg_stat_statements shows which rows they take.", undecided=True)
        else:
            yield random_key(facts, some, loads, found, seen)


def random_key(
    facts: Facts, some: Sequence[Keyed], loads: Sequence[Load], found: Savings, seen: Sequence[Evidence]
) -> Finding:  # fmt: skip
    first, table, home = some[0], some[0].leaf.quoted, facts.server.inorder
    now, ordered = (next(cost for cost in found.costs if cost.kind == kind) for kind in (RANDOM, ORDERED))
    ones = min(48, max(16, ceil(log2(1 + max(one.leaf.rows for one in some))) + SURE_BITS))
    made = f"{function(home, 'uuid_after_random_nextval')}({ones})"
    among, after = (after_switch(loads, is_last) for is_last in (False, True))
    # The SQL edition has no keys after random ones.
    last = [] if first.is_text or facts.server.is_sql_edition else [*installed(home), with_default(first, made)]
    sizes = dict(zip(("among_wal", "among", "after_wal", "after"), map(size_text, (*among, *after)), strict=True))
    return finding(
        "random-key", table, [*evidence_of_keys(facts, some), *seen], switched(facts, first), found.saved_per_day,
        found.costs, last, column=first.column.name, index=first.index.name,
        size=size_text(PAGE * fsum(one.index.pages for one in some)), **sizes,
        wal=size_text(now.wal_bytes_per_day), reads=f"{now.reads_per_second:,.0f}",
        ordered_wal=size_text(ordered.wal_bytes_per_day), ordered_reads=f"{ordered.reads_per_second:,.0f}",
        ordered_size=size_text(ordered.index_bytes), share=shares(found),
        server=f" The whole server writes {size_text(facts.server.wal)} a day." if facts.server.wal else "",
    )  # fmt: skip


def updates_of(facts: Facts, leaves: Sequence[Leaf]) -> tuple[tuple[float, ...], list[Evidence]]:
    """Shares of the rows among which updated rows may be, by the page images of UPDATE if these were counted.

    An UPDATE of a row that was inserted lately finds its page changed since the checkpoint.
    """
    names = {("updated", (schema, leaves[0].name)) for schema in ("", leaves[0].schema)}
    updates = [one for one in facts.statements if names & {*one.known.changed}]
    rows, images = fsum(one.rows for one in updates), fsum(one.images for one in updates)
    if not rows or not facts.server.sees_all:
        return (UPDATED_NEWEST, UPDATED_ANYWHERE), []
    each = images / rows
    pages = each * facts.checkpoint * fsum(one.updated for one in leaves)
    share = UPDATED_ANYWHERE if each > MANY_IMAGES else min(1.0, pages / max(1.0, fsum(one.pages for one in leaves)))
    return (share,), [Evidence(f"{each:,.2f} page images for each row that UPDATE changed", "pg_stat_statements")]


def shares(found: Savings) -> str:
    least, most = round(100 * found.least_share), round(100 * found.most_share)
    return f"{least} %" + (f" ({most} % if updates take new rows only)" if most > least else "")


def with_default(one: Keyed, made: str) -> str:
    return f"ALTER TABLE {one.leaf.quoted} ALTER COLUMN {identifier(one.column.name)} SET DEFAULT {made}"


def switched(facts: Facts, one: Keyed) -> list[str]:
    is_core = facts.server.version >= 180000 and not facts.server.inorder
    made = "uuidv7()" if is_core else f"{function(facts.server.inorder, 'uuid_v7_nextval')}()"
    if one.is_text:
        plain = one.leaf.statistic(one.column).width == 33
        made = f"replace({made}::text, '-', '')" if plain else f"{made}::text"
    altered = with_default(one, made)
    return [altered] if is_core else [*installed(facts.server.inorder), altered]


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


def advice_of(facts: Facts, least: float) -> tuple[list[Finding], list[Left]]:
    """Findings ordered by savings, and tables without one. Findings below ``least`` bytes are omitted."""
    every = keyed(facts)
    found = [one for rule in (random_keys, mixed_keys, text_uuids) for one in rule(facts, every, least)]
    findings = [one for one in (*found, *readers(facts), *counts(facts)) if isinstance(one, Finding)]
    return sorted(findings, key=lambda one: -one.saves), [one for one in found if isinstance(one, Left)]
