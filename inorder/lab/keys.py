"""The kinds of key that the lab compares: column type, default, index, and what they are called."""

from dataclasses import dataclass, replace

from inorder.errors import InputError

SCHEMA = "inorder_lab"

# The index on the key: suffix of the kind's name, how it is called, and the statement that makes it.
PRIMARY = "primary"
PACKED = "packed"  # added when the table is filled: built in order, its pages as full as they may be
ADD_PRIMARY = "ALTER TABLE {table} ADD CONSTRAINT {name}_pkey PRIMARY KEY (id){tablespace}"
INDEX_KINDS = {
    PRIMARY: ("", "", ADD_PRIMARY),
    PACKED: ("_packed", ", packed", ADD_PRIMARY),
    "unique": ("_unique", ", unique", "CREATE UNIQUE INDEX {name}_pkey ON {table} (id){tablespace}"),
    "plain": ("_plain", ", plain", "CREATE INDEX {name}_pkey ON {table} (id){tablespace}"),
    "none": ("_none", ", no index", ""),
}


@dataclass(frozen=True)
class KeyKind:
    """One way to make a key, and the index on it.

    ``setup`` runs before the table is created. ``{schema}`` in it and in ``column`` is the lab's schema, ``{name}`` the
    kind's. ``shade``: of which kind's colour how much is its own, "" for a colour in the style sheet.
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
        """The kind that its ratios are to: the usual one with the same index."""
        return BASELINE + INDEX_KINDS[self.index_kind][0]

    @property
    def in_seconds(self) -> bool:
        """Whether a block of its keys lasts a second.

        >>> [name for name, kind in KEY_KINDS.items() if kind.in_seconds and kind.index_kind == PRIMARY]
        ['time', 'time_char', 'unix32']
        """
        return "uuid_time_nextval(1)" in self.column or self.name.startswith("unix32")

    @property
    def needs_inorder(self) -> bool:
        """Whether the extension makes its keys.

        >>> [name for name in BASE_KINDS if not KEY_KINDS[name].needs_inorder]
        ['bigint', 'random', 'random_char', 'random_ossp', 'comb', 'sequence64', 'unix32', 'newsequential']
        """
        return "_nextval(" in self.column

    @property
    def contrib(self) -> str:
        """The extension of PostgreSQL's own that makes its keys, which not every server has; or "".

        >>> [name for name in BASE_KINDS if KEY_KINDS[name].contrib]
        ['random_ossp']
        """
        return "uuid-ossp" if "uuid_generate_v4(" in self.column else ""

    def statements(self, tablespace: str = "") -> list[str]:
        """The SQL that makes the empty table with the index that it is filled with, in a tablespace (a quoted name)."""
        index = [] if self.index_kind == PACKED else self.index_statements(tablespace)
        return [*self.table_statements(), *index]

    def filled_statements(self, tablespace: str = "") -> list[str]:
        return self.index_statements(tablespace) if self.index_kind == PACKED else []

    def table_statements(self) -> list[str]:
        """The SQL that makes the empty table without its index."""
        names = {"schema": SCHEMA, "name": self.name}
        return [
            *([self.setup.format(**names)] if self.setup else []),
            f"CREATE TABLE {self.table} (id {self.column.format(**names)} NOT NULL)",
        ]

    def removal(self) -> list[str]:
        """The SQL that removes the table, its index and its sequence, if they are there."""
        return [f"DROP TABLE IF EXISTS {self.table}", f"DROP SEQUENCE IF EXISTS {self.table}_numbers"]

    def index_statements(self, tablespace: str = "") -> list[str]:
        """The SQL that makes the index, if there is to be one.

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

# Blocks of a second, not of a minute, where nothing else is said: at 10,000 rows/s and more a minute would be one large
# random block. Slower and smaller blocks are those of study P3, UUIDs as their 32 hexadecimal digits those of P1.
HEX = "char(32) DEFAULT replace({function}::text, '-', '')"
SEQUENCE = "CREATE SEQUENCE {schema}.{name}_numbers"

USUAL = (
    KeyKind("bigint", "bigint", "bigint GENERATED BY DEFAULT AS IDENTITY"),
    KeyKind("xact", "xact", "uuid DEFAULT uuid_xact_nextval()"),
    KeyKind("v7", "version 7", "uuid DEFAULT uuid_v7_nextval()"),
    KeyKind("time", "time-prefixed", "uuid DEFAULT uuid_time_nextval(1)"),
    KeyKind("sequence", "sequence-prefixed", "uuid DEFAULT uuid_sequence_nextval('{schema}.{name}_numbers')", SEQUENCE),
    KeyKind("random", "random", "uuid DEFAULT gen_random_uuid()"),
)
OTHERS = (
    KeyKind("time60", "time, 60 s", "uuid DEFAULT uuid_time_nextval(60)", shade="time 60%"),
    KeyKind(
        "sequence256",
        "sequence, 256",
        "uuid DEFAULT uuid_sequence_nextval('{schema}.{name}_numbers', 256)",
        SEQUENCE,
        shade="sequence 60%",
    ),
    KeyKind("time_char", "time, char(32)", HEX.format(function="uuid_time_nextval(1)"), shade="time 35%"),
    KeyKind("random_char", "random, char(32)", HEX.format(function="gen_random_uuid()"), shade="random 50%"),
    KeyKind("random_ossp", "random, uuid-ossp", HEX.format(function="uuid_generate_v4()"), shade="random 30%"),
)

# Those that study P3 names as forerunners: the prefix of each, then the bytes of a version-4 UUID from that place on.
# COMB with its 48 bits of time in front, where PostgreSQL compares first. newsequentialid: a number, then a fixed node.
BEFORE = "uuid DEFAULT encode({prefix} || {rest}, 'hex')::uuid"
TIME = "int8send(({clock})::bigint)"
MILLISECONDS = TIME.format(clock="floor(extract(epoch FROM clock_timestamp()) * 1000)")
SECONDS = TIME.format(clock="floor(extract(epoch FROM clock_timestamp()))")
NUMBER = "int8send(nextval('{schema}.{name}_numbers'))"
FORERUNNERS = tuple(
    KeyKind(name, label, BEFORE.format(prefix=prefix, rest=rest), setup, shade=shade)
    for name, label, prefix, rest, setup, shade in (
        ("comb", "COMB", f"substr({MILLISECONDS}, 3)", "substr(uuid_send(gen_random_uuid()), 7)", "", "v7 60%"),
        ("sequence64", "sequence, 64 bits", NUMBER, "substr(uuid_send(gen_random_uuid()), 9)", SEQUENCE,
         "sequence 35%"),
        ("unix32", "Unix time, 32 bits", f"substr({SECONDS}, 5)", "substr(uuid_send(gen_random_uuid()), 5)", "",
         "time 80%"),
        ("newsequential", "newsequentialid", NUMBER, r"'\x80006e6f64650000'::bytea", SEQUENCE, "bigint 60%"),
    )
)  # fmt: skip
EVERY = (*USUAL, *OTHERS, *FORERUNNERS)

USUAL_KINDS = tuple(kind.name for kind in USUAL)
BASE_KINDS = tuple(kind.name for kind in EVERY)
FULL_KINDS = tuple(kind.name for kind in (*USUAL, *OTHERS) if not kind.contrib)  # what every server has

# The colours that are not in the style sheet.
SHADES = {kind.name: kind.shade.split() for kind in EVERY if kind.shade}

# Each with each kind of index: random, random_unique, random_plain, random_none, and so on.
KEY_KINDS = {variant.name: variant for kind in EVERY for variant in (kind.with_index(index) for index in INDEX_KINDS)}


def with_indexes(kinds: tuple[str, ...], indexes: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds with each of the indexes; a kind that names its index has that one.

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


def kinds_named(names: str, known: tuple[str, ...] = BASE_KINDS) -> list[KeyKind]:
    """The kinds in a comma-separated list; an error that names the unknown one and the known ones.

    >>> [kind.label for kind in kinds_named("v7,bigint")]
    ['version 7', 'bigint']
    >>> kinds_named("v7,v6")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    inorder.errors.InputError: unknown key kind 'v6'; there are bigint, xact, v7, time, sequence, random, time60, ...

    One of the known may name its index, too:

    >>> [kind.label for kind in kinds_named("random_plain")]
    ['random, plain']
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    indexed = {KEY_KINDS[kind].with_index(index).name for kind in known for index in INDEX_KINDS}
    for name in wanted:
        if name not in (indexed if known == BASE_KINDS else known):
            raise InputError(f"unknown key kind '{name}'; there are {', '.join(known)}")
    if not wanted:
        raise InputError(f"no key kind given; there are {', '.join(known)}")
    return [KEY_KINDS[name] for name in dict.fromkeys(wanted)]
