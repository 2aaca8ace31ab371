"""Findings about the keys of a database, and all findings in the order of their savings."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from math import ceil, fsum, inf, log2

from inorder.advise import uuids
from inorder.advise.cost import (
    DAY,
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
from inorder.advise.finding import Evidence, Finding, Unadvised, finding, function, with_inorder
from inorder.advise.readers import counts, readers
from inorder.connection.database import identifier
from inorder.lab.analysis.model import LEAF_FILLFACTOR, LITTLE, PAGE, index_tuple, leaf_capacity
from inorder.text import plural
from inorder.units import size_text, time_text

TEXT_KEY = 40  # bytes of a UUID as text in an index: 32 or 36 characters and header, aligned
LEAST_SHARE = 1 - 1 / LITTLE  # no change is advised if it would save a smaller share of the WAL
MANY_IMAGES = 0.5  # page images per updated row; with more, updates are assumed to change rows of any age
LEAST_GAIN = 0.1  # no rebuild is advised if the index would shrink by a smaller share
LOADED = 0.9  # share of the rows; if the counters include more, the table may have been loaded in bulk
LONG_AFTER_LOAD = 30 * DAY  # seconds after which even a bulk load hardly changes the rates
DEFAULT_ONES = 32  # leading ones of a key of uuid_after_random_nextval() without arguments
SURE_BITS = 7  # additional bits, so that at most 2^-7 random keys are expected to follow a new key


@dataclass(frozen=True)
class Keyed:
    """A table or partition, and its key: the index, the column, and the kind of the keys."""

    leaf: Leaf
    index: IndexFacts
    column: ColumnFacts
    keys: uuids.Keys

    @property
    def is_text(self) -> bool:
        return self.column.type in TEXT_TYPES


def keyed(facts: Facts) -> list[Keyed]:
    """Return the keys of all tables. The key of a composite index is its first column.

    The first column of a composite index counts only if at least half of its values are distinct. If the number of
    distinct values is unknown, it counts only if the kind of the keys is known.
    """
    leaves, now = [], datetime.now(UTC)
    for leaf, (index, column) in [(leaf, leaf.key) for leaf in facts.leaves if leaf.key]:
        statistic = leaf.statistic(column)
        keys = uuids.keys_of(statistic.values, column.makers, statistic.correlation, now)
        if index.columns == 1 or statistic.distinct_values <= -0.5 or (keys.kind and not statistic.distinct_values):
            leaves.append(Keyed(leaf, index, column, keys))
    return leaves


def by_table(all_keys: Sequence[Keyed], kind: str) -> Iterator[list[Keyed]]:
    for _, group in groupby(
        (partition for partition in all_keys if partition.keys.kind == kind),
        key=lambda partition: partition.leaf.quoted,
    ):
        yield list(group)


def evidence_of_keys(facts: Facts, partitions: Sequence[Keyed]) -> tuple[Evidence, ...]:
    rows, inserted, updated, hot = (
        fsum(getattr(partition.leaf, name) for partition in partitions) for name in ("rows", *COUNTERS[:3])
    )
    values, keys = partitions[0].leaf.statistic(partitions[0].column).values, partitions[0].keys
    share = f"{100 * keys.share:.0f} % of version 7" if keys.share else keys.kind
    since = min((partition.keys.since for partition in partitions if partition.keys.since), default=None)
    updates = f", {updated:,.1f} updated, {100 * hot / updated:.0f} % of them HOT" if updated else ""
    return (
        Evidence(f"keys: {share}" + (f", since {since:%Y-%m-%d} at the latest" if since else ""),
                 f"{plural(len(values), 'value')} of pg_stats or a sample" if values else "the column's default"),
        Evidence(f"{rows:,.0f} rows", "pg_class, as of the last VACUUM or ANALYZE"),
        Evidence(f"{inserted:,.1f} rows inserted a second{updates}", f"pg_stat_user_tables, {facts.counted}"),
    )  # fmt: skip


def load_of(partition: Keyed, facts: Facts, of_all: float) -> Load:
    """Return the writes to a table or partition. Each index with random keys gets memory in proportion to its size."""
    leaf, other_indexes = partition.leaf, []
    for index in leaf.indexes:
        statistic = leaf.statistics.get(index.first)
        distinct = statistic.distinct_values if statistic else 0.0
        values = (distinct if distinct >= 0 else -distinct * leaf.rows) or index.pages
        hot = 1.0 if statistic and abs(statistic.correlation or 0) >= uuids.RISING else min(index.pages, values)
        other_indexes += [Other(index.pages, hot)] if index is not partition.index and index.method != "brin" else []
    memory = max(PAGE, facts.server.cache_bytes * partition.index.pages * PAGE / max(PAGE, of_all))
    return Load(
        leaf.rows, leaf.pages, leaf.toast_pages, leaf.inserted, leaf.updated, max(0.0, leaf.updated - leaf.hot),
        leaf.deleted, TEXT_KEY if partition.is_text else 0, tuple(other_indexes), memory, facts.checkpoint,
    )  # fmt: skip


def random_keys(facts: Facts, all_keys: Sequence[Keyed], least: float) -> Iterator[Finding | Unadvised]:
    of_all = fsum(partition.index.pages * PAGE for partition in all_keys if partition.keys.kind == uuids.RANDOM)
    for table_keys in by_table(all_keys, uuids.RANDOM):
        partitions = [
            partition
            for partition in table_keys
            if partition.leaf.inserted and partition.leaf.is_logged and 0 <= partition.leaf.rows < inf
        ]
        if not partitions or not facts.server.has_images:
            continue
        table = partitions[0].leaf.quoted
        loads = [load_of(partition, facts, of_all) for partition in partitions]
        updated, evidence = updates_of(facts, [partition.leaf for partition in partitions])
        savings = compared(loads, KINDS[partitions[0].is_text :], updated)
        if savings.saved_per_day < least:
            yield Unadvised(table, f"ordered keys would save {size_text(savings.saved_per_day)} of WAL a day")
        elif savings.most_share < LEAST_SHARE:
            yield Unadvised(
                table, f"the key costs little: ordered keys would save {shares(savings)} of the table's WAL"
            )
        elif savings.least_share < LEAST_SHARE:
            run = f"inorder lab run insert --like {shlex.quote(table)} --touch recent"
            reason = (
                f"ordered keys would save {shares(savings)} of its WAL. If updates change new rows, {run} measures the "
                "saving. pg_stat_statements shows which rows updates change."
            )
            yield Unadvised(table, reason, undecided=True)
        else:
            yield random_key(facts, partitions, loads, savings, evidence)


def random_key(
    facts: Facts, partitions: Sequence[Keyed], loads: Sequence[Load], savings: Savings, evidence: Sequence[Evidence]
) -> Finding:  # fmt: skip
    first, table, home = partitions[0], partitions[0].leaf.quoted, facts.server.inorder
    now, ordered = (next(cost for cost in savings.costs if cost.kind == kind) for kind in (RANDOM, ORDERED))
    one_bits = min(48, max(16, ceil(log2(1 + max(partition.leaf.rows for partition in partitions))) + SURE_BITS))
    default = f"{function(home, 'uuid_after_random_nextval')}({one_bits if one_bits > DEFAULT_ONES else ''})"
    among, after = (after_switch(loads, is_last) for is_last in (False, True))
    # The SQL edition has no generator of keys that sort after random keys.
    has_generator = not first.is_text and not facts.server.is_sql_edition and home != ""
    remedies = [with_inorder(home, with_default(first, default))] if has_generator else []
    remedy, instead, *_ = [*remedies, switched(facts, first), []]
    sizes = dict(zip(("among_wal", "among", "after_wal", "after"), map(size_text, (*among, *after)), strict=True))
    return finding(
        "random-key", table, [*evidence_of_keys(facts, partitions), *evidence], remedy,
        savings.saved_per_day, savings.costs, instead, caution_of(facts, partitions), column=first.column.name,
        index=first.index.name,
        size=size_text(PAGE * fsum(partition.index.pages for partition in partitions)), **sizes,
        wal=size_text(now.wal_bytes_per_day), reads=f"{now.reads_per_second:,.0f}",
        ordered_wal=size_text(ordered.wal_bytes_per_day), ordered_reads=f"{ordered.reads_per_second:,.0f}",
        ordered_size=size_text(ordered.index_bytes), share=shares(savings),
        server=f" The whole server writes {size_text(facts.server.wal)} a day." if facts.server.wal else "",
    )  # fmt: skip


def caution_of(facts: Facts, partitions: Sequence[Keyed]) -> str:
    """Return a caution if the counters may reflect a bulk load, or a short time, instead of the usual writes."""
    if facts.over is not None:
        return ""
    leaves = [partition.leaf for partition in partitions]
    rows = fsum(max(0.0, leaf.rows) for leaf in leaves)
    added = fsum(leaf.counted["inserted"] - leaf.counted["deleted"] for leaf in leaves)
    is_loaded = added >= LOADED * rows
    if facts.seconds >= (LONG_AFTER_LOAD if is_loaded else DAY):
        return ""
    loaded = f", and {min(1.0, added / max(1.0, rows)):.0%} of the rows were inserted in this time"
    return (
        f"The counters cover {time_text(facts.seconds)}{loaded if is_loaded else ''}. If rows were loaded in bulk, the "
        "figures per day are wrong: run inorder advise --over 10min during the usual load."
    )


def updates_of(facts: Facts, leaves: Sequence[Leaf]) -> tuple[tuple[float, ...], list[Evidence]]:
    """Estimate which share of a table's rows is updated, and return the share with its evidence.

    A share of 0.01 means that updates change only the newest hundredth of the rows. If updates were not counted, the
    result is UPDATED_NEWEST and UPDATED_ANYWHERE. Otherwise, the share is computed from the page images of UPDATE: an
    UPDATE of a new row causes no image, because the INSERT has changed the page since the checkpoint.
    """
    names = {("updated", (schema, leaves[0].name)) for schema in ("", leaves[0].schema)}
    updates = [statement for statement in facts.statements if names & {*statement.classification.changed}]
    rows, images = fsum(statement.rows for statement in updates), fsum(statement.images for statement in updates)
    if not rows or not facts.server.sees_all:
        return (UPDATED_NEWEST, UPDATED_ANYWHERE), []
    images_per_row = images / rows
    pages = images_per_row * facts.checkpoint * fsum(leaf.updated for leaf in leaves)
    share_of_pages = min(1.0, pages / max(1.0, fsum(leaf.pages for leaf in leaves)))
    text = f"{images_per_row:,.2f} page images for each row that UPDATE changed"
    share = UPDATED_ANYWHERE if images_per_row > MANY_IMAGES else share_of_pages
    return (share,), [Evidence(text, "pg_stat_statements")]


def shares(savings: Savings) -> str:
    least, most = round(100 * savings.least_share), round(100 * savings.most_share)
    return f"{least} %" + (f" ({most} % if updates change only new rows)" if most > least else "")


def with_default(partition: Keyed, value: str) -> str:
    return f"ALTER TABLE {partition.leaf.quoted} ALTER COLUMN {identifier(partition.column.name)} SET DEFAULT {value}"


def switched(facts: Facts, partition: Keyed) -> list[str]:
    is_core = facts.server.version >= 180000 and not facts.server.inorder
    expression = "uuidv7()" if is_core else f"{function(facts.server.inorder, 'uuid_v7_nextval')}()"
    if partition.is_text:
        plain = partition.leaf.statistic(partition.column).width == 33
        expression = f"replace({expression}::text, '-', '')" if plain else f"{expression}::text"
    statement = with_default(partition, expression)
    return [statement] if is_core else with_inorder(facts.server.inorder, statement)


def mixed_keys(facts: Facts, all_keys: Sequence[Keyed], least: float) -> Iterator[Finding]:
    for partitions in by_table(all_keys, uuids.MIXED):
        per_page = LEAF_FILLFACTOR * leaf_capacity("v7", TEXT_KEY if partitions[0].is_text else 0)
        size_now = PAGE * fsum(partition.index.pages for partition in partitions)
        saved = size_now - fsum(partition.leaf.rows for partition in partitions) / per_page * PAGE
        if saved >= max(least, LEAST_GAIN * size_now):
            yield finding(
                "mixed-keys", partitions[0].leaf.quoted, evidence_of_keys(facts, partitions),
                [f"REINDEX INDEX CONCURRENTLY {identifier(partition.leaf.leaf_schema, partition.index.name)}"
                 for partition in partitions],
                saved, column=partitions[0].column.name, size=size_text(size_now), saved=size_text(saved),
            )  # fmt: skip


def text_uuids(facts: Facts, _all_keys: Sequence[Keyed], least: float) -> Iterator[Finding]:
    columns: dict[tuple[str, str], list[tuple[Leaf, ColumnFacts]]] = {}
    for leaf in facts.leaves:
        for column in leaf.columns.values():
            values = leaf.statistic(column).values if column.type in TEXT_TYPES else []
            if len(values) >= uuids.LEAST_VALUES and all(map(uuids.digits, values)):
                columns.setdefault((leaf.quoted, column.name), []).append((leaf, column))
    for (table, name), columns_of_table in columns.items():
        width = columns_of_table[0][0].statistic(columns_of_table[0][1]).width or 37
        in_table = fsum(max(0.0, leaf.rows) for leaf, _ in columns_of_table) * (width - 16)
        pages = fsum(
            index.pages for leaf, column in columns_of_table for index in leaf.indexes if index.first == column.number
        )
        in_indexes = pages * PAGE * (1 - index_tuple("v7") / index_tuple("v7", TEXT_KEY))
        statement = "ALTER TABLE {0} ALTER COLUMN {1} DROP DEFAULT, ALTER COLUMN {1} TYPE uuid USING {1}::uuid"
        if in_table + in_indexes >= least:
            yield finding(
                "text-uuid", table, [Evidence(f"{width - 1} characters in each of the values seen", "pg_stats")],
                [statement.format(table, identifier(name))], in_table + in_indexes, column=name, characters=width - 1,
                in_table=size_text(in_table), in_indexes=size_text(in_indexes),
            )  # fmt: skip


def advice_of(facts: Facts, least: float) -> tuple[list[Finding], list[Unadvised]]:
    """Return findings in the order of their savings, and tables without a finding.

    Findings that save less than ``least`` bytes are omitted.
    """
    all_keys = keyed(facts)
    results = [result for rule in (random_keys, mixed_keys, text_uuids) for result in rule(facts, all_keys, least)]
    findings = [result for result in (*results, *readers(facts), *counts(facts)) if isinstance(result, Finding)]
    return sorted(findings, key=lambda finding: -finding.saves), [
        result for result in results if isinstance(result, Unadvised)
    ]
