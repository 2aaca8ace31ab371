"""Random SQL expressions for each argument type of the extension's functions."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

LIMIT_48 = 1 << 48
INT8 = (
    0, 1, 2, 3, 7, 100, -1, -2, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, LIMIT_48 - 2, LIMIT_48 - 1, LIMIT_48,
    LIMIT_48 + 1, (1 << 62), (1 << 63) - 1, -(1 << 31), -(1 << 63), -LIMIT_48,
)  # fmt: skip
INT4 = (0, 1, 2, 3, 10, 1000, -1, 65535, 65536, (1 << 31) - 1, -(1 << 31), 1 << 24)
INT2 = (0, 1, -1, 32767, -32768)
WORDS = ("beginning", "now", "here", "brin", "btree", "hash", "xact", "id", "n", "kind")
TEXTS = (
    "", " ", "'", "''", '"', "\\", "\\'", "\\x41", "%", "%s", "%1$I", "%L%I%s", "$$", "$1", "--", "/*", "*/", ";",
    "'); SELECT 1; --", "x\ny\r\n", "\t", "e",
    "null", "NULL", "pg_temp.x", "ünïcödé", "\u202eabc", "\ufeff", "\u0085",
    "e\u0301" * 40, "\U0001f600" * 70, "x" * 63, "x" * 64, "x" * 200, "x" * 201, "x" * 100_000, "{}", "{a,b}", "(,)",
    "('')", "a.b.c", "0", "-0", "4294967296", "1e400", "NaN", "infinity",
)  # fmt: skip
TIMES = (
    "infinity", "-infinity", "epoch", "now", "1969-12-31 23:59:59.999999+00", "1582-10-15 00:00:00+00",
    "1582-10-14 23:59:59.999999+00", "4713-01-01 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00",
    "10889-08-02 05:31:50.655999+00", "10889-08-02 05:31:50.656+00", "5236-03-31 21:21:00.684697+00",
    "5236-03-31 21:21:00.684698+00", "2024-02-29 12:00:00.123456+14", "1970-01-01 00:00:00+00",
    "2000-01-01 00:00:00+00",
)  # fmt: skip
INTERVALS = (
    "0", "1 day", "-1 day", "1 month", "1 microsecond", "178000000 years", "-178000000 years", "1 month -30 days",
    "1000 years", "2 hours 3 microseconds", "1 year", "infinity",
)  # fmt: skip
UUIDS = (
    "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "00000000-0001-8000-8000-000000000000", "ffffffff-ffff-8fff-bfff-ffffffffffff",
    "00000000-0000-1000-8000-000000000000", "ffffffff-ffff-1fff-bfff-ffffffffffff",
    "ffffffff-ffff-7fff-bfff-ffffffffffff", "00000000-0000-7000-8000-000000000000",
    "c232ab00-9414-11ec-b3c8-9f6bdeced846", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    "017f22e2-79b0-7cc3-08c4-dc0c0c07398f", "12345678-9abc-4def-8123-456789abcdef",
)  # fmt: skip
MULTIRANGES = (
    "{}", "{[0,281474976710656)}", "{[0,281474976710655]}", "{(,)}", "{(,5)}", "{[5,)}", "{[-5,3)}", "{[0,1)}",
    "{[0,700),[702,703),[705,706)}", "{[3,4),[10,750)}", "{[281474976710655,281474976710656)}", "{[1,2),[900,901)}",
    "{[9223372036854775806,9223372036854775807)}", "{[-9223372036854775808,9223372036854775807)}", "{empty}",
    "{[0,740)}",
)  # fmt: skip
TEXT_ARRAYS = (
    "'{}'", "'{a}'", "'{NULL}'", "'{NULL,NULL}'", "'{{a,b},{c,d}}'", "'[5:6]={a,b}'", "'[-1:0]={1,2}'", "'{1}'",
    "'{1,2}'", "'{\"''\",\"\\\\\\\\\"}'", "'{00000000-0001-8000-8000-000000000000}'", "'{%s,%I}'",
    "'{infinity,-infinity}'", "'{\"1); SELECT 1\"}'",
)  # fmt: skip
NUMBER_ARRAYS = ("'{}'", "'{NULL}'", "'{1,2,3}'", "'{{1,2},{3,4}}'", "'[0:1]={7,8}'")
ARRAYS = {"text[]": TEXT_ARRAYS, "bigint[]": NUMBER_ARRAYS, "oid[]": NUMBER_ARRAYS}
FLOATS = ("0", "-1", "1e308", "-1e308", "1e-300", "NaN", "Infinity")
PLAIN: dict[str, tuple[object, ...]] = {
    "bigint": INT8,
    "integer": (*INT4, *range(20)),
    "smallint": INT2,
    "oid": (0, 1259, 4294967295, 16384, 16400, 16500),
    "timestamp with time zone": TIMES,
    "interval": INTERVALS,
    "boolean": ("true", "false"),
    "double precision": FLOATS,
    "real": FLOATS,
    "numeric": FLOATS,
    "bytea": ("", "\\x", "\\x00ff", "\\x" + "ab" * 16),
}
ROLES = ("alice", "reader", "mallory", "installer", "monitor", "postgres", "pg_monitor", "pg_database_owner", "nobody")
# Statements for feed_apply().
STATEMENTS = (
    "SELECT 1 FROM batch", "SELECT * FROM batch", "TABLE batch", "SELECT count(*) FROM batch AS a, batch AS b",
    "INSERT INTO mallory.sink SELECT 1 FROM batch", "INSERT INTO mallory.sink SELECT 1 FROM batch RETURNING *",
    "DELETE FROM mallory.sink USING batch", "UPDATE mallory.sink SET x = 2 FROM batch",
    "MERGE INTO mallory.sink AS s USING batch ON true WHEN MATCHED THEN DELETE", "SELECT * FROM batch FOR UPDATE",
    "SELECT 1; SELECT 2", ") SELECT 1 --", ", x AS (SELECT mallory.evil(1::bigint)) SELECT * FROM x",
    ", batch AS (SELECT 1) SELECT * FROM batch", "VALUES (1)", "", ";",
    "CREATE TABLE mallory.made AS SELECT * FROM batch",
    "SELECT 1 INTO mallory.made FROM batch", "DROP TABLE mallory.sink", "SELECT mallory.nest('SELECT 1') FROM batch",
    "SELECT public.feed_drop('%(feed)s') FROM batch", "SELECT mallory.nest('DROP TABLE %(table)s') FROM batch",
    "SELECT mallory.nest($$SELECT public.feed_apply('%(feed)s', 'SELECT 1 FROM batch')$$) FROM batch",
    "SELECT mallory.nest('ALTER TABLE %(table)s ADD COLUMN more int') FROM batch",
    "SELECT * FROM batch WHERE mallory.evil(1::bigint) = 1", "SELECT 1/0 FROM batch",
    "SELECT pg_catalog.count(*) FROM batch",
    "SELECT public.feed_seek('%(feed)s', 'now') FROM batch", "SELECT current_user FROM batch", "SELECT $1 FROM batch",
    "INSERT INTO inorder_internal.feed_table SELECT * FROM batch", "SELECT FROM inorder_internal.feed, batch",
    "INSERT INTO alice.events (n) SELECT 1 FROM batch", "SELECT public.exact_count('%(table)s') FROM batch",
    "SELECT * FROM batch LIMIT 1", ", x AS (SELECT * FROM batch OFFSET 1) SELECT * FROM x, x AS y",
    "SELECT FROM (SELECT FROM batch LIMIT (SELECT mallory.evil(1::bigint))) AS s",
    "SELECT (SELECT 1 FROM batch LIMIT 1)",
    ", x AS (INSERT INTO mallory.sink SELECT 1 FROM batch RETURNING *) SELECT * FROM x LIMIT 1",
)  # fmt: skip


def quote(text: str) -> str:
    """Return a string as a standard SQL literal.

    >>> quote("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Relation:
    feed: str
    name: str
    column: str = "id"
    is_uuid: bool = True
    owner: str = "mallory"


@dataclass
class Values:
    rng: random.Random
    tables: list[Relation]
    odd: list[str]  # other values of type regclass
    focus: Relation = field(init=False)

    def __post_init__(self) -> None:
        self.look_elsewhere()

    def look_elsewhere(self) -> None:
        """Choose the table for the next call, usually one of mallory's tables."""
        self.focus = self.own(self.rng) if self.rng.random() < 0.85 else self.rng.choice(self.tables)

    def own(self, rng: random.Random) -> Relation:
        return rng.choice([table for table in self.tables if table.owner == "mallory"])

    def of(self, type_name: str, argument: str = "") -> str:
        if self.rng.random() < 0.04:
            return "NULL" if self.rng.random() < 0.5 else f"NULL::{type_name}"
        makers: dict[str, Callable[[], str]] = {
            "regclass": self.regclass, "regrole": self.regrole, "anyelement": self.row_type,
            "public.feed_position": self.position, "public.feed_batch": self.batch,
            "public.feed_member[]": self.members, "int8multirange": self.multirange, "tstzrange": self.tstzrange,
            "public.uuid_v1": self.uuid_v1, "internal": lambda: "NULL", "pg_node_tree": self.node_tree,
            '"any"': self.row_type,
        }  # fmt: skip
        if type_name in makers:
            return makers[type_name]()
        if type_name == "text" and argument in ("statement", "name"):
            return self.statement() if argument == "statement" else self.feed_name()
        return f"{self.plain(type_name)}::{type_name}"

    def plain(self, type_name: str) -> str:
        rng = self.rng
        if type_name in ("name", "text", "cstring"):
            return quote(rng.choice(WORDS if rng.random() < 0.6 else TEXTS))
        if type_name == "uuid":
            return quote(self.uuid())
        if type_name in ARRAYS:
            return rng.choice(ARRAYS[type_name])
        if type_name == "bigint" and rng.random() < 0.2:
            return quote(str(rng.choice((rng.randrange(2000), rng.randrange(LIMIT_48)))))
        return quote(str(rng.choice(PLAIN.get(type_name, ("", "0", "{}", "()")))))

    def uuid(self) -> str:
        if self.rng.random() < 0.6:
            return self.rng.choice(UUIDS)
        digits = f"{self.rng.getrandbits(128):032x}"
        return digits[:12] + self.rng.choice("1478") + digits[13:]

    def uuid_v1(self) -> str:
        return self.rng.choice((
            f"{quote(self.uuid())}::public.uuid_v1", f"{quote(self.uuid())}::uuid::public.uuid_v1",
            "'c232ab00-9414-11ec-b3c8-9f6bdeced846'::public.uuid_v1", "public.uuid_v1_nextval()",
            "public.uuid_v1_floor('2024-01-01+00')",
        ))  # fmt: skip

    def tstzrange(self) -> str:
        """Return a range whose bounds may be missing, infinite, or in the wrong order."""
        low, high = (self.rng.choice(("", *TIMES)) for _ in range(2))
        if self.rng.random() < 0.15:
            return "'empty'::tstzrange"
        return f"{quote(self.rng.choice('[(') + low + ',' + high + self.rng.choice('])'))}::tstzrange"

    def multirange(self) -> str:
        if self.rng.random() < 0.5:
            return f"{quote(self.rng.choice(MULTIRANGES))}::int8multirange"
        low, amount = self.rng.randrange(800), self.rng.choice((2, 10, 3000))
        return self.rng.choice((
            "public.ended_transactions()", f"public.ended_transactions({self.of('bigint')})",
            f"(public.ended_transactions() - int8multirange(int8range({low}, {low + 20})))",
            f"(SELECT range_agg(int8range(i, i + 1)) FROM generate_series(1, {amount}, 2) AS i)",
        ))  # fmt: skip

    def feed_name(self) -> str:
        if self.rng.random() < 0.75:
            return f"{quote(self.focus.feed)}::text"
        return f"{quote(self.rng.choice((*TEXTS, *(table.feed for table in self.tables))))}::text"

    def statement(self) -> str:
        names = {"feed": self.focus.feed, "table": self.focus.name}
        text = self.rng.choice(STATEMENTS)
        return f"{quote(text % names if '%(' in text else text)}::text"

    def regclass(self) -> str:
        """Return the chosen table, or sometimes another table, another kind of object, or an unused OID."""
        chance = self.rng.random()
        if chance < 0.7:
            return f"{quote(self.focus.name)}::regclass"
        if chance < 0.8:
            return f"{quote(self.rng.choice(self.tables).name)}::regclass"
        return f"{self.rng.choice(self.odd)}::regclass"

    def regrole(self) -> str:
        if self.rng.random() < 0.1:
            return f"{self.rng.choice((0, 10, 4294967295, 16384))}::regrole"
        if self.rng.random() < 0.5:
            return f"{quote(self.focus.owner)}::regrole"
        return f"{quote(self.rng.choice(ROLES))}::regrole"

    def row_type(self) -> str:
        if self.rng.random() < 0.8:
            return f"NULL::{self.focus.name}"
        return self.rng.choice((
            f"NULL::{self.rng.choice(self.tables).name}", "NULL::text", "ROW(1, 2)", "1", "ARRAY[1]", "'x'",
            "NULL::public.feed_position", "NULL::pg_catalog.pg_class", "NULL::record",
            f"ARRAY[NULL::{self.focus.name}]",
            "NULL::mallory.over_row", "NULL::public.feeds", "NULL::mallory.mood", "NULL::internal", "NULL::anyelement",
        ))  # fmt: skip

    def node_tree(self) -> str:
        return self.rng.choice((
            "(SELECT adbin FROM pg_attrdef ORDER BY random() LIMIT 1)",
            "(SELECT ev_action FROM pg_rewrite ORDER BY random() LIMIT 1)",
            "(SELECT indexprs FROM pg_index WHERE indexprs IS NOT NULL ORDER BY random() LIMIT 1)",
            "(SELECT relpartbound FROM pg_class WHERE relpartbound IS NOT NULL ORDER BY random() LIMIT 1)",
            "(SELECT conbin FROM pg_constraint WHERE conbin IS NOT NULL ORDER BY random() LIMIT 1)",
            "(SELECT proargdefaults FROM pg_proc WHERE proargdefaults IS NOT NULL ORDER BY random() LIMIT 1)",
        ))  # fmt: skip

    def members(self) -> str:
        chance = self.rng.random()
        if chance < 0.3:
            return f"(public.reader_start({quote(self.focus.name)}::regclass)).members"
        if chance < 0.5:
            return self.rng.choice(
                ("NULL::public.feed_member[]", "'{}'::public.feed_member[]", "'{NULL}'::public.feed_member[]")
            )
        rows = ", ".join(
            self.rng.choice((
                "NULL",
                f"ROW({self.plain('oid')}, {self.plain('text')}, {self.plain('text')}, {self.plain('bigint[]')})",
                f"ROW({quote(self.focus.name)}::regclass, {quote(self.focus.name)}, NULL, '{{}}')",
            )) for _ in range(self.rng.randint(1, 3))
        )  # fmt: skip
        array = f"ARRAY[{rows}]"
        return f"{array if self.rng.random() < 0.8 else f'ARRAY[{array}, {array}]'}::public.feed_member[]"

    def origin(self) -> str:
        return self.rng.choice(("NULL", "'7654321098765432109/1'", quote(self.rng.choice(TEXTS[:20]))))

    def number(self, usual: str) -> str:
        return self.rng.choice((usual, usual, "NULL", "NULL", self.of("bigint")))

    def key(self, usual: str) -> str:
        return self.rng.choice((usual, usual, "NULL", self.of("text[]")))

    def ordering(self) -> str:
        if self.rng.random() < 0.5:
            return "NULL"
        column, place = self.rng.choice(("id", "n", "xact", "seq", "no such")), self.rng.randrange(-1, 5)
        walked = self.rng.choice(("NULL", "0", "-9223372036854775808"))
        frozen, low, high = self.rng.choice((
            ("NULL", "NULL", "NULL"), ("'{[0,9)}'", self.rng.randrange(-9, 9), self.rng.randrange(-9, 9)),
        ))  # fmt: skip
        return f"ROW({quote(column)}, {place}, {frozen}, {low}, {high}, {high}, {walked})::public.feed_order"

    def position(self) -> str:
        word = self.rng.choice(("beginning", "now"))
        start = f"public.reader_start({quote(self.focus.name)}::regclass, '{word}'::text)"
        chance = self.rng.random()
        if chance < 0.25:
            return start
        if chance < 0.4:
            return f"public.reader_advance({start}, {self.real_batch(start)})"
        real = self.real_batch(start)
        cut, after = self.number("(b).cut"), self.key("(b).cut_after")
        fields = ", ".join((
            self.number("1"), self.multirange(), cut, after, self.ordering(), self.members(), self.origin(),
        ))  # fmt: skip
        row = f"ROW({fields})::public.feed_position"
        wrapped = self.rng.choice(
            (row, row, row, f"{row}::mallory.over_position", f"({row})::text::public.feed_position")
        )
        return f"(SELECT {wrapped} FROM (SELECT {real} AS b OFFSET 0) AS s)"

    def real_batch(self, position: str) -> str:
        rows = self.rng.choice(("NULL", "1", "2", "1000"))
        return f"public.reader_next_batch({quote(self.focus.name)}::regclass, {position}, {rows})"

    def batch(self) -> str:
        start = f"public.reader_start({quote(self.focus.name)}::regclass)"
        real = self.real_batch(start)
        if self.rng.random() < 0.35:
            return real
        fields = ", ".join((
            self.number("(b).format"), self.multirange(),
            self.number("(b).resumed"), self.key("(b).resumed_after"), self.number("(b).cut"),
            self.key("(b).cut_after"), self.ordering(), self.members(), self.origin(),
        ))  # fmt: skip
        if self.rng.random() < 0.2:
            return f"ROW({fields.replace('(b).', '(NULL::public.feed_batch).')})::public.feed_batch"
        return f"(SELECT ROW({fields})::public.feed_batch FROM (SELECT {real} AS b OFFSET 0) AS s)"
