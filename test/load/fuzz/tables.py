"""Mallory's tables: plain tables and unusual ones.

The file tables.sql contains the statements that create each table. The line above them has the name of the feed, the
column by which the table is read (default: id), and the relation (default: mallory.NAME). In the statements, {t} stands
for the relation. If the last statement is an INSERT, it fills the table.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from load.fuzz.values import Relation

WORDS = {
    "{uuid}": "id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval()",
    "{number}": "xact bigint NOT NULL DEFAULT public.xact_id()",
    "{many}": ", ".join(f"c{i} bigint DEFAULT {i}" for i in range(60)),
}
FILL = "INSERT INTO {t} (n) SELECT i FROM generate_series(1, {rows}) AS i"


@dataclass(frozen=True)
class Table:
    relation: Relation
    make: list[str]
    insert: str

    def filled(self, rows: int) -> str:
        return self.insert.replace("{rows}", str(rows))


def tables() -> Iterator[Table]:
    _, *parts = re.split(r"^-- (.*)\n", Path(__file__).with_name("tables.sql").read_text(), flags=re.M)
    for head, text in zip(parts[::2], parts[1::2], strict=True):
        feed, column, name = [*head.split(" | "), "", ""][:3]
        relation = Relation(feed, name or f"mallory.{feed}", column or "id", column not in ("xact", '"from"'))
        filled = text if "\nINSERT" in text else f"{text}{FILL};\n"
        for word, meant in (WORDS | {"{t}": relation.name}).items():
            filled = filled.replace(word, meant)
        *make, insert = (" ".join(statement.split()) for statement in filled.split(";\n")[:-1])
        yield Table(relation, make, insert)


ALL = tuple(tables())
KEYS = next(table for table in ALL if table.relation.feed == "keys")

# Other values of type regclass: unused OIDs, and objects that are not in tables.sql or do not belong to mallory.
ODD_RELATIONS = (
    "0", "4294967295", "1", "16384", "'pg_catalog.pg_class'", "'pg_catalog.pg_proc'", "'pg_catalog.pg_database'",
    "'pg_catalog.pg_authid'",
    "'pg_catalog.pg_stat_activity'", "'pg_catalog.pg_class_oid_index'", "'pg_catalog.pg_settings'", "'public.feeds'",
    "'pg_toast.pg_toast_1255'",
    "'mallory.counter'", "'mallory.backward'", "'mallory.typed'", "'alice.events'", "'alice.numbers'",
    "'alice.parts'", "'alice.secret'",
    "'alice.secret_pkey'", "'alice.counter'", "'mallory.keys_pkey'", "'mallory.keys_one_idx'",
    "'mallory.keys_one_idx1'", "'mallory.plain_pkey'",
    "'mallory.parts1'", "'mallory.deep1'", "'mallory.deep1a'", "'mallory.child'", "'mallory.sink'", "'mallory.made'",
    "'mallory.over'",
    "'mallory.parts_pkey'", "'information_schema.tables'", "'mallory.row_pair'", "'mallory.gone'",
)  # fmt: skip


def choose(rng: random.Random) -> list[Table]:
    return [KEYS, *rng.sample([table for table in ALL if table is not KEYS], 6)]
