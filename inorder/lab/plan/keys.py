"""The kinds of key that the lab compares: column type, default, index, and label."""

from dataclasses import dataclass, replace

SCHEMA = "inorder_lab"

# For each kind of index on the key: the suffixes of its name and label, and the statement that creates the index.
PRIMARY = "primary"
PACKED = "packed"  # an index that is created after the table is filled, so that its pages are filled up to fillfactor
ADD_PRIMARY = "ALTER TABLE {table} ADD CONSTRAINT {name}_pkey PRIMARY KEY (id){tablespace}"
UNIQUE = "CREATE UNIQUE INDEX {name}_pkey ON {table} (id){tablespace}"
PLAIN = "CREATE INDEX {name}_pkey ON {table} (id){tablespace}"
INDEX_KINDS = {
    PRIMARY: ("", "", ADD_PRIMARY),
    PACKED: ("_packed", ", packed", ADD_PRIMARY),
    "unique": ("_unique", ", unique", UNIQUE),
    "plain": ("_plain", ", plain", PLAIN),
    f"unique_{PACKED}": (f"_unique_{PACKED}", ", unique, packed", UNIQUE),
    f"plain_{PACKED}": (f"_plain_{PACKED}", ", plain, packed", PLAIN),
    "none": ("_none", ", no index", ""),
}


@dataclass(frozen=True)
class KeyKind:
    """A kind of key, and the index on it.

    ``setup`` runs before the table is created. In ``setup`` and ``column``, ``{schema}`` stands for the lab's schema
    and ``{name}`` for the name of the kind. ``shade``: another kind and a percentage of its colour, or "" if the style
    sheet defines the colour.
    """

    name: str
    label: str
    column: str
    setup: str = ""
    index_kind: str = PRIMARY
    shade: str = ""

    @property
    def table(self) -> str:
        return f"{SCHEMA}.{self.name}"

    @property
    def index(self) -> str:
        return f"{SCHEMA}.{self.name}_pkey"

    @property
    def baseline(self) -> str:
        """The baseline for ratios: bigint with the same kind of index."""
        return BASELINE + INDEX_KINDS[self.index_kind][0]

    @property
    def in_seconds(self) -> bool:
        return "uuid_time_nextval(1)" in self.column or self.name.startswith("unix32")

    @property
    def needs_inorder(self) -> bool:
        """True if the extension generates the keys.

        >>> [name for name in BASE_KINDS if not KEY_KINDS[name].needs_inorder]
        ['bigint', 'random', 'uuidv7', 'random_char', 'random_ossp', 'comb', 'sequence64', 'unix32', 'newsequential']
        """
        return "_nextval(" in self.column

    @property
    def contrib(self) -> str:
        return "uuid-ossp" if "uuid_generate_v4(" in self.column else ""

    @property
    def since(self) -> int:
        """The first major version of PostgreSQL that has the function of this kind, or 0 for any version."""
        return 18 if "uuidv7(" in self.column else 0

    def statements(self, tablespace: str = "") -> list[str]:
        """Return SQL that creates the empty table, and its index unless it is created after the table is filled.

        ``tablespace``: the quoted name of the tablespace for the index.
        """
        index = [] if self.index_kind.endswith(PACKED) else self.index_statements(tablespace)
        return [*self.table_statements(), *index]

    def filled_statements(self, tablespace: str = "") -> list[str]:
        return self.index_statements(tablespace) if self.index_kind.endswith(PACKED) else []

    def table_statements(self) -> list[str]:
        names = {"schema": SCHEMA, "name": self.name}
        return [
            *([self.setup.format(**names)] if self.setup else []),
            f"CREATE TABLE {self.table} (id {self.column.format(**names)} NOT NULL)",
        ]

    def removal(self) -> list[str]:
        return [f"DROP TABLE IF EXISTS {self.table}", f"DROP SEQUENCE IF EXISTS {self.table}_numbers"]

    def index_statements(self, tablespace: str = "") -> list[str]:
        """Return SQL that creates the index, if the kind has one.

        >>> KEY_KINDS["random_plain"].index_statements('"fast"')
        ['CREATE INDEX random_plain_pkey ON inorder_lab.random_plain (id) TABLESPACE "fast"']
        >>> KEY_KINDS["random_none"].index_statements()
        []
        """
        statement = INDEX_KINDS[self.index_kind][2]
        using = " USING INDEX" if statement == ADD_PRIMARY else ""
        place = f"{using} TABLESPACE {tablespace}" if tablespace else ""
        return [statement.format(table=self.table, name=self.name, tablespace=place)] if statement else []

    def with_index(self, index_kind: str) -> "KeyKind":
        suffix, words, _ = INDEX_KINDS[index_kind]
        return replace(self, name=self.name + suffix, label=self.label + words, index_kind=index_kind)


BASELINE = "bigint"

# Time-prefixed keys have blocks of a second unless noted. With 10,000 rows/s or more, a block of a minute would contain
# 600,000 or more keys in random order. The other block sizes are from study P3. UUIDs as 32 hexadecimal digits are from
# study P1.
HEX = "char(32) DEFAULT replace({function}::text, '-', '')"
SEQUENCE = "CREATE SEQUENCE {schema}.{name}_numbers"
PREFIXED = "uuid DEFAULT uuid_sequence_nextval('{schema}.{name}_numbers'"

USUAL = (
    KeyKind("bigint", "bigint", "bigint GENERATED BY DEFAULT AS IDENTITY"),
    KeyKind("xact", "xact", "uuid DEFAULT uuid_xact_nextval()"),
    KeyKind("v7", "version 7", "uuid DEFAULT uuid_v7_nextval()"),
    KeyKind("time", "time-prefixed", "uuid DEFAULT uuid_time_nextval(1)"),
    KeyKind("sequence", "sequence-prefixed", f"{PREFIXED})", SEQUENCE),
    KeyKind("random", "random", "uuid DEFAULT gen_random_uuid()"),
)
OTHERS = (
    KeyKind("uuidv7", "uuidv7", "uuid DEFAULT uuidv7()", shade="v7 60%"),
    KeyKind("time60", "time, 60 s", "uuid DEFAULT uuid_time_nextval(60)", shade="time 60%"),
    KeyKind("sequence256", "sequence, 256", f"{PREFIXED}, 256)", SEQUENCE, shade="sequence 60%"),
    KeyKind("sequence256_64", "sequence, 256 × 64", f"{PREFIXED}, 256, 64)", SEQUENCE, shade="sequence 70%"),
    KeyKind("time60_char", "time, 60 s, char(32)", HEX.format(function="uuid_time_nextval(60)"), shade="time 50%"),
    KeyKind("time_char", "time, char(32)", HEX.format(function="uuid_time_nextval(1)"), shade="time 35%"),
    KeyKind("random_char", "random, char(32)", HEX.format(function="gen_random_uuid()"), shade="random 50%"),
    KeyKind("random_ossp", "random, uuid-ossp", HEX.format(function="uuid_generate_v4()"), shade="random 30%"),
)

# Kinds that study P3 cites as predecessors. A key is a prefix, followed by bytes of a version-4 UUID. Here, COMB has
# its 48 bits of time at the front, because PostgreSQL compares these bytes first. newsequentialid is a number, followed
# by a fixed node.
BEFORE = "uuid DEFAULT encode({prefix} || {bytes_after}, 'hex')::uuid"
TIME = "int8send(({clock})::bigint)"
MILLISECONDS = TIME.format(clock="floor(extract(epoch FROM clock_timestamp()) * 1000)")
SECONDS = TIME.format(clock="floor(extract(epoch FROM clock_timestamp()))")
NUMBER = "int8send(nextval('{schema}.{name}_numbers'))"
FORERUNNERS = tuple(
    KeyKind(name, label, BEFORE.format(prefix=prefix, bytes_after=bytes_after), setup, shade=shade)
    for name, label, prefix, bytes_after, setup, shade in (
        ("comb", "COMB", f"substr({MILLISECONDS}, 3)", "substr(uuid_send(gen_random_uuid()), 7)", "", "v7 60%"),
        ("sequence64", "sequence, 64 bits", NUMBER, "substr(uuid_send(gen_random_uuid()), 9)", SEQUENCE,
         "sequence 35%"),
        ("unix32", "Unix time, 32 bits", f"substr({SECONDS}, 5)", "substr(uuid_send(gen_random_uuid()), 5)", "",
         "time 80%"),
        ("newsequential", "newsequentialid", NUMBER, r"'\x80006e6f64650000'::bytea", SEQUENCE, "bigint 60%"),
    )
)  # fmt: skip
# This kind has blocks of 256 rows, as in sequence256_64. It has more blocks, each with fewer index pages.
SMALLER = (KeyKind("sequence256_few", "sequence, 256 × 512", f"{PREFIXED}, 256, 512)", SEQUENCE, shade="sequence 80%"),)
EVERY = (*USUAL, *OTHERS, *SMALLER, *FORERUNNERS)

USUAL_KINDS = tuple(kind.name for kind in USUAL)
BASE_KINDS = tuple(kind.name for kind in EVERY)
# These kinds need no contrib extension, and no recent version of PostgreSQL.
FULL_KINDS = tuple(kind.name for kind in (*USUAL, *OTHERS) if not kind.contrib and not kind.since)

# Colours that the style sheet does not define.
SHADES = {kind.name: kind.shade.split() for kind in EVERY if kind.shade}

# One variant per kind of key and kind of index: random, random_unique, random_plain, random_none, and so on.
KEY_KINDS = {variant.name: variant for kind in EVERY for variant in (kind.with_index(index) for index in INDEX_KINDS)}


def with_indexes(kinds: tuple[str, ...], indexes: tuple[str, ...]) -> tuple[str, ...]:
    """Combine kinds of key with kinds of index. A kind whose name includes an index keeps that index.

    >>> with_indexes(("v7", "random"), ("primary", "none"))
    ('v7', 'random', 'v7_none', 'random_none')
    >>> with_indexes(("v7", "random_plain"), ("primary",))
    ('v7', 'random_plain')
    """
    every = [
        kind if KEY_KINDS[kind].index_kind != PRIMARY else KEY_KINDS[kind].with_index(index).name
        for index in indexes
        for kind in kinds
    ]
    return tuple(dict.fromkeys(every))
