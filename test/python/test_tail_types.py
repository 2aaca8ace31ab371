"""PostgreSQL types in the formats of inorder tail: each value is preserved, or an error names its location.

DuckDB reads Arrow and Parquet, PostgreSQL reads binary and CSV, and the server that wrote the JSON also reads it.
"""

import datetime
import io
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from inorder.arrow.reader import ArrowReader
from inorder.connection.database import Connection, connect
from inorder.connection.session import Session
from inorder.lab.server.cluster import Cluster
from psycopg import sql

from conftest import LONG_RUN
from tail_runs import Tail
from world.sql import run

pytestmark = pytest.mark.server

LONG = "123456789012345678901234567890123456.78"
KEY = "00000000-0000-0000-0000-0000000000ff"
MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'fine')", "CREATE TYPE pair AS (a int, b numeric(5,2), c date)",
    "CREATE TYPE deep AS (a int[])", "CREATE DOMAIN small AS numeric(5,2)", "CREATE TYPE span AS RANGE (SUBTYPE = int)",
)  # fmt: skip
# The SQL type, the SQL value, the DuckDB type, and the DuckDB value.
TYPES = [
    ("boolean", "true", "BOOLEAN", True),
    ("smallint", "-32768", "SMALLINT", -32768),
    ("integer", "2147483647", "INTEGER", 2147483647),
    ("bigint", "-9223372036854775808", "BIGINT", -(2**63)),
    ("oid", "4294967295", "BIGINT", 4294967295),
    ("real", "0.5", "FLOAT", 0.5),
    ("double precision", "'-Infinity'", "DOUBLE", float("-inf")),
    ("numeric(38,2)", LONG, "DECIMAL(38,2)", Decimal(LONG)),
    ("numeric(5,2)", "-999.99", "DECIMAL(5,2)", Decimal("-999.99")),
    ("numeric", "1e200", "VARCHAR", "1" + "0" * 200),
    ("numeric", "'NaN'", "VARCHAR", "NaN"),
    ("numeric(50,1)", "0.5", "VARCHAR", "0.5"),
    ("small", "1.5", "DECIMAL(5,2)", Decimal("1.50")),
    ("money", "1.5", "VARCHAR", "$1.50"),
    ("text", "E'a\"b,\\n\\\\N ü'", "VARCHAR", 'a"b,\n\\N ü'),
    ("text", "''", "VARCHAR", ""),
    ("varchar(3)", "'ab '", "VARCHAR", "ab "),
    ("char(4)", "'ab'", "VARCHAR", "ab  "),
    ("name", "'n'", "VARCHAR", "n"),
    ("bytea", "'\\x00ff'", "BLOB", b"\0\xff"),
    ("date", "'9999-12-31'", "DATE", datetime.date(9999, 12, 31)),
    ("date", "'0001-01-01'", "DATE", datetime.date(1, 1, 1)),
    ("time", "'23:59:59.999999'", "TIME", datetime.time(23, 59, 59, 999999)),
    ("timetz", "'12:00+02'", "VARCHAR", "12:00:00+02"),
    ("timestamp", "'9999-12-31 23:59:59.999999'", "TIMESTAMP", datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamptz", "'2020-01-01 00:00+02'", "TIMESTAMP WITH TIME ZONE", "2019-12-31 22:00:00+00"),
    ("interval", "'1 mon 2 days'", "VARCHAR", "1 mon 2 days"),
    ("uuid", f"'{KEY}'", "UUID", UUID(KEY)),
    ("json", """'{"a":[1,null]}'""", "JSON", '{"a":[1,null]}'),
    ("jsonb", """'{"a":[1,null]}'""", "JSON", '{"a": [1, null]}'),
    ("inet", "'10.0.0.1'", "VARCHAR", "10.0.0.1"),
    ("cidr", "'10.0.0.0/8'", "VARCHAR", "10.0.0.0/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "VARCHAR", "08:00:2b:01:02:03"),
    ("bit(3)", "'101'", "VARCHAR", "101"),
    ("varbit", "'1010'", "VARCHAR", "1010"),
    ("point", "'(1,2)'", "VARCHAR", "(1,2)"),
    ("polygon", "'((0,0),(1,1))'", "VARCHAR", "((0,0),(1,1))"),
    ("tsvector", "'a b'", "VARCHAR", "'a' 'b'"),
    ("jsonpath", "'$'", "VARCHAR", "$"),
    ("pg_lsn", "'0/1'", "VARCHAR", "0/1"),
    ("xid8", "'7'", "VARCHAR", "7"),
    ("regclass", "'pg_class'", "VARCHAR", "pg_class"),
    ("int4range", "'[1,3)'", "VARCHAR", "[1,3)"),
    ("nummultirange", "'{[1,2)}'", "VARCHAR", "{[1,2)}"),
    ("span", "'[1,3)'", "VARCHAR", "[1,3)"),
    ("integer[]", "'{1,null,3}'", "INTEGER[]", [1, None, 3]),
    ("text[]", "'{}'", "VARCHAR[]", []),
    ("uuid[]", f"'{{{KEY}}}'", "UUID[]", [UUID(KEY)]),
    ("numeric(5,2)[]", "'{1.5}'", "DECIMAL(5,2)[]", [Decimal("1.50")]),
    ("date[]", "'{2020-01-01}'", "DATE[]", [datetime.date(2020, 1, 1)]),
    ("jsonb[]", "ARRAY['{}']::jsonb[]", "JSON[]", ["{}"]),
    ("inet[]", "'{10.0.0.1}'", "VARCHAR", "{10.0.0.1}"),
    ("mood", "'fine'", "VARCHAR", "fine"),
    ("mood[]", "'{fine,null}'", "VARCHAR[]", ["fine", None]),
    ("pair", "'(1,2.5,2020-01-01)'", "STRUCT(a INTEGER, b DECIMAL(5,2), c DATE)",
     {"a": 1, "b": Decimal("2.50"), "c": datetime.date(2020, 1, 1)}),
    ("pair", "'(,,)'", "STRUCT(a INTEGER, b DECIMAL(5,2), c DATE)", {"a": None, "b": None, "c": None}),
    ("pair[]", "ARRAY['(1,,)']::pair[]", "VARCHAR", '{"(1,,)"}'),
    ("deep", "ROW('{1}'::int[])", "VARCHAR", "({1})"),
]  # fmt: skip
NAMES = [f"c {place}%" for place in range(len(TYPES))]
RUN = ("v", "--position")


@pytest.fixture
def types(fresh: Connection) -> Connection:
    """Return a session with a table that has a column of each type, and a row of nulls."""
    run(fresh, *MADE)
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, *_) in zip(NAMES, TYPES, strict=True))
    fresh.execute(f"CREATE TABLE v (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), {columns})".encode())
    fresh.execute("SELECT feed_enable('v')")
    names = ", ".join(f'"{name}"' for name in NAMES)
    fresh.execute(f"INSERT INTO v ({names}) VALUES ({', '.join(value for _, value, *_ in TYPES)})".encode())
    fresh.execute("INSERT INTO v DEFAULT VALUES")
    return fresh


@pytest.mark.parametrize("output", ["arrow", "parquet"])
def test_duckdb_reads_the_same_values(types: Connection, tail: Tail, output: str) -> None:
    where = ("--directory", "out") if output == "parquet" else ()
    text = tail.written(*RUN, "p", "--format", output, *where)
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        source = f"'{tail.folder}/out/*.parquet'"
        if output == "arrow":
            batches = pa.ipc.open_stream(text).read_all()
            (enum,) = (
                batches.schema.field(name).type
                for name, column_type in zip(NAMES, TYPES, strict=True)
                if column_type[0] == "mood"
            )
            assert pa.types.is_dictionary(enum)
            duck.register("batches", batches)
            source = "batches"
        kinds = {name: str(kind) for name, kind, *_ in duck.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        full, empty = duck.execute(f'SELECT * EXCLUDE id FROM {source} ORDER BY "c 1%" NULLS LAST').fetchall()
    columns = [(kind, kinds[name], shown(value)) for name, (kind, *_), value in zip(NAMES, TYPES, full, strict=True)]
    assert columns == [(kind, there, value) for kind, _, there, value in TYPES]
    assert set(empty) == {None}


def shown(value: object) -> object:
    """Return the value; a timestamp with time zone becomes text in the server's format."""
    is_zoned = isinstance(value, datetime.datetime) and value.tzinfo
    return f"{value.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S}+00" if is_zoned else value  # type: ignore[attr-defined]


@pytest.mark.parametrize("output", ["binary", "csv"])
def test_postgresql_loads_the_same_values(types: Connection, tail: Tail, output: str) -> None:
    text = tail.written(*RUN, "p", "--format", output)
    types.execute("CREATE TABLE again (LIKE v)")
    options = "FORMAT binary" if output == "binary" else "FORMAT csv, HEADER match"
    with types.cursor().copy(f"COPY again FROM STDIN ({options})".encode()) as copy:
        copy.write(text)
    assert types.execute("SELECT (v.*)::text FROM v EXCEPT SELECT (again.*)::text FROM again").fetchall() == []
    assert types.execute("SELECT count(*) FROM again").fetchone() == (2,)


def test_json_has_the_same_values(types: Connection, tail: Tail) -> None:
    """Values of built-in types are written as row_to_json() writes them, and other values as text."""
    text = tail.written(*RUN, "p", "--format", "json")
    types.execute("CREATE TABLE again (LIKE v)")
    for line in io.StringIO(text.decode()):
        types.execute("INSERT INTO again SELECT * FROM json_populate_record(NULL::again, %s)", [line])
    assert types.execute("SELECT (v.*)::text FROM v EXCEPT SELECT (again.*)::text FROM again").fetchall() == []


# Values that Arrow cannot represent, with the error message for each.
MISFITS = [
    ("date", "'infinity'", "infinity, or a value outside the years"),
    ("date", "'0044-03-15 BC'", "infinity, or a value outside the years"),
    ("timestamp without time zone", "'294276-01-01'", "infinity, or a value outside the years"),
    ("timestamp without time zone", "'4713-01-01 BC'", "infinity, or a value outside the years"),
    ("timestamp with time zone", "'-infinity'", "infinity, or a value outside the years"),
    ("timestamp with time zone", "'10000-01-01 00:00Z'", "infinity, or a value outside the years"),
    ("time without time zone", "'24:00'", "24:00"),
    ("numeric(4,1)", "'NaN'", "NaN or an infinity"),
    ("date[]", "'{2020-01-01,infinity}'", "infinity, or a value outside the years"),
    ("numeric(4,1)[]", "'{1,NaN}'", "NaN or an infinity"),
    ("integer[]", "'{{1,2},{3,4}}'", "an array of 2 dimensions"),
    ("integer[]", "'[0:1]={1,2}'", "an array whose first index is not 1"),
    ("public.pair", "'(1,NaN,)'", "NaN or an infinity"),
    ("public.pair", "'(1,,infinity)'", "infinity, or a value outside the years"),
]


def test_a_value_that_arrow_cannot_represent_names_its_row(fresh: Connection, tail: Tail) -> None:
    fresh.execute(MADE[1].encode())
    fresh.execute("CREATE TABLE v (k uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (k, n))")
    fresh.execute("SELECT feed_enable('v')")
    fresh.execute("INSERT INTO v (n) VALUES (0)")
    messages = []
    for place, (kind, value, says) in enumerate(MISFITS[:: 1 if LONG_RUN else 3]):
        fresh.execute(f"ALTER TABLE v ADD odd {kind}".encode())
        fresh.execute(f"INSERT INTO v (n, odd) VALUES ({place + 1}, {value})".encode())
        (key,) = fresh.execute("SELECT max(k::text) FROM v").fetchall()[0]
        error = tail(*RUN, "p", "--format", "parquet", "--directory", "out", code=2)
        expected = f'column "odd" of type {kind} has ', says, f" in the row (k, n) = ({key}, {place + 1})\n"
        messages += [(kind, value, error) for words in expected if words not in error]
        fresh.execute("ALTER TABLE v DROP odd")
    assert messages == []
    assert list((tail.folder / "out").glob("*.parquet")) == []


def test_a_value_that_arrow_cannot_represent_becomes_null_on_request(fresh: Connection, tail: Tail) -> None:
    fresh.execute(MADE[1].encode())
    columns = ", ".join(f'"{place}" {kind}' for place, (kind, *_) in enumerate(MISFITS))
    fresh.execute(f"CREATE TABLE v (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), {columns})".encode())
    fresh.execute("SELECT feed_enable('v')")
    names = ", ".join(f'"{place}"' for place in range(len(MISFITS)))
    fresh.execute(f"INSERT INTO v ({names}) VALUES ({', '.join(value for _, value, _ in MISFITS)})".encode())
    text = tail.written(*RUN, "p", "--format", "arrow", "--misfits", "null")
    (row,) = pa.ipc.open_stream(text).read_all().drop_columns("id").to_pylist()
    pairs = [{"a": 1, "b": None, "c": None}] * 2
    assert (
        list(row.values())
        == [None] * 8 + [[datetime.date(2020, 1, 1), None], [Decimal("1.0"), None]] + [None] * 2 + pairs
    )


def test_nulls_among_values_stay_in_their_places(fresh: Connection, tail: Tail) -> None:
    """The table has a column of each type whose Arrow array the tool builds itself."""
    run(fresh, *MADE)
    kinds = {"a": "pair", "b": "int[]", "c": "mood", "d": "numeric(5,2)", "e": "uuid", "f": "jsonb", "g": "timestamptz"}
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    fresh.execute(f"CREATE TABLE v (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), {columns})".encode())
    fresh.execute("SELECT feed_enable('v')")
    values = (
        "ROW(n, n, now())::pair",
        "ARRAY[n, null]",
        "'fine'::mood",
        "n",
        "gen_random_uuid()",
        "'{}'::jsonb",
        "now()",
    )
    chosen = ", ".join(f"CASE WHEN n % 3 <> {place % 3} THEN {value} END" for place, value in enumerate(values))
    fresh.execute(f"INSERT INTO v ({', '.join(kinds)}) SELECT {chosen} FROM generate_series(0, 8) AS n".encode())
    rows = pa.ipc.open_stream(tail.written(*RUN, "p", "--format", "arrow")).read_all().drop_columns("id").to_pylist()
    nulls = [[value is None for value in row.values()] for row in rows]
    assert nulls == [[n % 3 == place % 3 for place in range(len(kinds))] for n in range(9)]
    assert [row["a"] and (row["a"]["a"], row["a"]["b"]) for row in rows] == [
        (n % 3 and (n, n)) or None for n in range(9)
    ]


@pytest.mark.parametrize("names", [("fine", "good"), ("fine", "bad")], ids=["renamed", "exchanged"])
@pytest.mark.parametrize("hint", ["as it is", None], ids=["error", "null"])
def test_a_batch_is_read_again_if_labels_change_meanwhile(
    fresh: Connection, names: tuple[str, str], hint: str | None
) -> None:
    """Arrow has the labels of the snapshot, but the server sends the current ones.

    The batch is therefore read again.
    """
    run(fresh, "CREATE TYPE mood AS ENUM ('fine', 'bad')", "CREATE TABLE v (id int PRIMARY KEY, c mood NOT NULL)",
        "INSERT INTO v VALUES (1, 'fine'), (2, 'bad')")  # fmt: skip
    rename = "ALTER TYPE mood RENAME VALUE '{}' TO '{}'"
    exchange = [rename.format(names[0], "z"), rename.format("bad", "fine"), rename.format("z", "bad")]
    renames = [rename.format(*names)] if names[1] == "good" else exchange

    def question(_connection: object) -> sql.Composable:
        run(fresh, *renames)
        renames.clear()
        return sql.SQL("public.v")

    with closing(Session(fresh.info.dsn)) as session, closing(ArrowReader(hint)) as reader:
        table = session.table("v")
        with pytest.raises(psycopg.errors.SerializationFailure, match="was changed while it was read"):
            list(reader.rows(session, table, question))
        (batch,) = reader.rows(session, table, question)
    assert batch.column("c").to_pylist() == [names[1], "bad" if names[1] == "good" else "fine"]


@pytest.fixture
def unchecked(cluster: Cluster, tmp_path: Path) -> Iterator[Tail]:
    """Yield the tool on a database whose encoding accepts any bytes as text.

    Some values in its table are not valid text.
    """
    with connect(cluster.dsn) as admin:
        admin.execute("CREATE DATABASE unchecked ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'")
        with connect(f"{cluster.dsn} dbname=unchecked") as session:
            session.execute("CREATE EXTENSION inorder; CREATE TYPE mood AS ENUM ('fine')")
            session.execute("CREATE TABLE events (n int PRIMARY KEY, t text, list text[], body jsonb, m mood, "
                          "xact bigint DEFAULT xact_id())")  # fmt: skip
            session.execute("CREATE INDEX ON events (xact); SELECT feed_enable('events')")
            for row in (r"1, E'ok \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80', '{a}', '{}', 'fine'",
                        r"2, E'\xe4', '{b}', '[1]', 'fine'", r"3, 'x', ARRAY[E'\xff'], '[2]', NULL"):  # fmt: skip
                session.execute(f"INSERT INTO events VALUES ({row})".encode())
        yield Tail(cluster, tmp_path, "unchecked")
        admin.execute("DROP DATABASE unchecked WITH (FORCE)")


@pytest.mark.parametrize("form", ["json", "csv", "binary", "arrow", "parquet"])
def test_bytes_that_are_not_text_are_an_error(unchecked: Tail, form: str) -> None:
    parquet = ("--directory", "d") if form == "parquet" else ()
    read = ("events", "--position", "p", "--format", form, *parquet)
    text = unchecked(*read, code=1)
    assert "\nDETAIL:  The error is in column t of the row (n) = (2).\nHINT:  The server does not convert text" in text


def test_bytes_that_are_not_text_become_null_on_request(unchecked: Tail) -> None:
    unchecked("events", "--position", "p", "--format", "parquet", "--directory", "d", "--misfits", "null")
    (file,) = unchecked.folder.glob("d/*.parquet")
    rows = [[row[name] for name in ("n", "t", "list", "m")] for row in pq.read_table(file).to_pylist()]
    assert rows == [[1, "ok ä € 😀", ["a"], "fine"], [2, None, ["b"], "fine"], [3, "x", None, None]]
