"""inorder tail delivers each row once, whichever process is killed: all types, signals, files, pipes and commands."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tail_runs import Tail, insert, numbers
from waiting import PATIENCE, wait_for
from world.sql import value

pytestmark = pytest.mark.server


@pytest.mark.editions
def test_each_run_continues_where_the_last_run_stopped(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 25)
    assert numbers(tail("events", "--position", "p", "--batch-rows", "7")) == list(range(1, 26))
    assert tail("events", "--position", "p") == ""
    with connect(fresh.info.dsn) as late, late.transaction():
        insert(late, 1, 100)
        insert(fresh, 3, 200)
        assert numbers(tail("events", "--position", "p", "--batch-rows", "1")) == [200, 201, 202]
    assert numbers(tail("events", "--position", "p")) == [100]
    assert numbers(tail("events", "--position", "q")) == [*range(1, 26), 100, 200, 201, 202]
    assert tail.state()["pending"] is None
    assert sorted(path.name for path in tail.folder.iterdir()) == ["p", "q"]


def test_start_now_leaves_out_existing_rows(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 5)
    assert tail("events", "--position", "p", "--start", "now") == ""
    insert(fresh, 2, 10)
    assert numbers(tail("events", "--position", "p", "--start", "beginning")) == [10, 11]


@pytest.mark.editions
def test_a_feed_keeps_its_position_in_the_database(tail: Tail, fresh: Connection) -> None:
    fresh.execute("SELECT feed_create('it''s', 'events')")
    insert(fresh, 25)
    assert numbers(tail("--feed", "it's", "--batch-rows", "10")) == list(range(1, 26))
    assert tail("--feed", "it's") == ""
    assert value(fresh, "SELECT batch FROM inorder_internal.feed_state") == 3
    assert list(tail.folder.iterdir()) == []


@pytest.fixture
def reader(fresh: Connection) -> Iterator[str]:
    """Create a role without further privileges, whose name must be quoted, and yield its name."""
    name = '1 "tail" reader\'s'
    role = sql.Identifier(name)
    if value(fresh, "SELECT count(*) FROM pg_roles WHERE rolname = %s", name):
        fresh.execute(sql.SQL("DROP ROLE {}").format(role))
    fresh.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
    yield name
    fresh.execute(sql.SQL("DROP OWNED BY {}").format(role))
    fresh.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.mark.editions
def test_select_on_the_table_is_enough(tail: Tail, fresh: Connection, reader: str) -> None:
    insert(fresh, 2)
    tail.environment["PGUSER"] = reader
    assert "permission denied for table public.events" in tail("events", "--position", "p", code=2)
    fresh.execute(sql.SQL("GRANT SELECT ON events TO {}").format(sql.Identifier(reader)))
    with connect(make_conninfo(fresh.info.dsn, user=reader)) as session:
        session.execute("SELECT feed_create('f', 'events')")
    assert numbers(tail("events", "--position", "p")) == numbers(tail("--feed", "f")) == [1, 2]
    assert tail("--feed", "f", "--owner", reader) == ""


def test_a_feed_of_another_role_needs_a_grant_and_select(tail: Tail, fresh: Connection, reader: str) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 2)
    grantee = sql.Identifier(reader)
    tail.environment["PGUSER"] = reader
    unknown = 'inorder: feed "f" of role "postgres" does not exist, or this role may not see it\nHINT:  --owner ROLE'
    assert unknown in tail("--feed", "f", "--owner", "postgres", code=2)
    fresh.execute(sql.SQL("GRANT SELECT ON events TO {}").format(grantee))
    unknown = tail("--feed", "f", code=2)
    assert f'feed "f" of role "{reader}" does not exist' in unknown and "HINT:  --owner ROLE" in unknown
    refused = tail("--feed", "f", "--owner", "postgres", code=2)
    assert 'permission denied for feed "f"\nHINT:  ' in refused and "feed_grant()" in refused
    fresh.execute(sql.SQL("SELECT feed_grant('f', {}::regrole)").format(sql.Literal(grantee.as_string(fresh))))
    assert numbers(tail("--feed", "f", "--owner", "postgres", "--batch-rows", "1")) == [1, 2]
    with connect(make_conninfo(fresh.info.dsn, user=reader)) as session:
        session.execute("SELECT feed_create('f', 'events', 'now')")
    insert(fresh, 1, 7)
    assert numbers(tail("--feed", "f")) == [7]
    assert numbers(tail("--feed", "f", "--owner", "postgres")) == [7]
    fresh.execute(sql.SQL("REVOKE SELECT ON events FROM {}").format(grantee))
    assert "permission denied for table public.events" in tail("--feed", "f", "--owner", "postgres", code=2)


def test_a_batch_of_another_worker_is_read_after_its_lease(tail: Tail, fresh: Connection) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 3)
    with connect(fresh.info.dsn) as other:
        assert value(other, "SELECT (feed_take_batch('f', 'w', 2)).number") == 1
    assert numbers(tail("--feed", "f")) == [3]
    fresh.execute("UPDATE inorder_internal.worker_batch SET lease_end = clock_timestamp()")
    assert numbers(tail("--feed", "f")) == [1, 2]


def test_a_position_remembers_partitions(tail: Tail, fresh: Connection) -> None:
    fresh.execute("CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n)")
    fresh.execute("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1); CREATE INDEX ON parts (id)")
    fresh.execute("CREATE TABLE parts_2 (LIKE parts INCLUDING DEFAULTS); INSERT INTO parts_2 (n) VALUES (2)")
    fresh.execute("SELECT feed_enable('parts'); INSERT INTO parts (n) VALUES (1)")
    assert numbers(tail("parts", "--position", "p")) == [1]
    position = tail.state()["position"]
    assert isinstance(position, dict)
    assert [member["name"] for member in position["members"]] == ["public.parts", "public.parts_1"]
    fresh.execute("CREATE TABLE parts_3 PARTITION OF parts FOR VALUES IN (3); INSERT INTO parts (n) VALUES (3)")
    assert numbers(tail("parts", "--position", "p")) == [3]
    fresh.execute("ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2)")
    assert "partition public.parts_2 has rows of transactions" in tail("parts", "--position", "p", code=2)


def test_connection_strings_are_those_of_libpq(tail: Tail, fresh: Connection, cluster: Cluster) -> None:
    insert(fresh, 3)
    tail.environment = {name: value for name, value in tail.environment.items() if not name.startswith("PG")}
    host = str(cluster.folder / "run")
    service = tail.folder / "services"
    service.write_text(f"[shop]\nhost={host}\nuser=postgres\ndbname=tail\n")
    tail.environment |= {"PGSERVICEFILE": str(service), "PGDATABASE": "postgres"}
    uri = f"postgresql://postgres@/tail?host={host.replace('/', '%2F')}"
    for number, dsn in enumerate((f"host={host} user=postgres dbname=tail", uri, "service=shop")):
        assert numbers(tail("events", "--position", f"p{number}", "--dsn", dsn)) == [1, 2, 3]


AWKWARD = r'''
CREATE TYPE mood AS ENUM ('so so', 'it''s "fine"');
CREATE TYPE pair AS (a int, "B c" text);
CREATE DOMAIN small AS numeric CHECK (value < 10);
CREATE TABLE "Ex.t"."Odd % ""Name""" (
    id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), e int, "n %" numeric, nan numeric, inf numeric, f float8,
    f_nan float8, f4 real, i8 int8, b bytea, t text, empty text, nothing text, ts timestamptz, ts_inf timestamptz,
    d date, iv interval, time_tz timetz, a int[][], ta text[], c pair, ca pair[], m mood, dm small,
    r tstzrange, nr numrange,
    mr int8multirange, j json, jb jsonb, bits varbit, net inet, p point, v tsvector,
    money money, o oid, ch "char", bo bool,
    class regclass, fixed char(5), uuids uuid[], jp jsonpath);
SELECT feed_enable('"Ex.t"."Odd % ""Name"""');
INSERT INTO "Ex.t"."Odd % ""Name""" VALUES (DEFAULT, 7, 12345678901234567890.12345678901234567890, 'NaN', '-Infinity',
    0.1::float8 + 0.2, 'NaN', 1.1, 9223372036854775807, '\x00ff5c22',
    E'tab\t nl\n cr\r \\ " '' \u2028 \x01\x02\x7f é 🐘 \\.', '', NULL,
    '2019-01-01 12:00:00.123456+05:30', '-infinity', '4713-01-01 BC', '1 year 2 mons -3 days 04:05:06.7',
    '12:00:00+02', '{{1,NULL},{3,4}}', ARRAY['a,b', NULL, '"', '{}'], (1, E'x\n"y"'), ARRAY[(1, NULL)::pair],
    'it''s "fine"', 9.5, '[2019-01-01,infinity)', '(,3.5]', '{[1,3),[5,6)}',
    E'{"a":\n 1e5,\r\n\t"a": "\\u00e9\\n"}', '{"k": [1.10, null]}', '10101', '10.0.0.0/8', '(1e300,-0)',
    'a:1 fat:2B', 12.34, 4294967295, 'x', true, 'pg_class', 'ab',
    ARRAY['00000000-0000-0000-0000-000000000000'::uuid], '$.a[*]');
'''
ODD = '"Ex.t"."Odd % ""Name"""'


@pytest.fixture
def awkward(fresh: Connection) -> Connection:
    """Return a session with a table whose name must be quoted.

    One row of the table contains all special characters.
    """
    fresh.execute('CREATE SCHEMA "Ex.t"')
    fresh.execute(AWKWARD.encode())
    return fresh


@pytest.mark.editions
def test_json_of_every_type_equals_that_of_the_server(tail: Tail, awkward: Connection) -> None:
    line = tail(ODD, "--position", "p")
    assert line.count("\n") == 1 and line.endswith("\n")
    assert value(
        awkward, f"SELECT to_jsonb(e.*) = $1::jsonb FROM {ODD} AS e".replace("%", "%%").replace("$1", "%s"), line
    )
    assert '"n %":12345678901234567890.12345678901234567890,' in line
    assert '"f":0.30000000000000004,' in line and '"i8":9223372036854775807,' in line
    parsed = json.loads(line)
    assert parsed["nan"] == "NaN" and parsed["ts_inf"] == "-infinity" and parsed["b"] == "\\x00ff5c22"
    assert parsed["class"] == "pg_class" and parsed["e"] == 7 and parsed["nothing"] is None
    assert parsed["t"] == "tab\t nl\n cr\r \\ \" ' \u2028 \x01\x02\x7f é 🐘 \\."
    assert '"j":{"a":  1e5,  \t"a": "\\u00e9\\n"},' in line  # as inserted, except for newlines


# Values whose JSON may contain newlines: statements to run before, the column type, and the value.
TWO_LINES = {
    "json": ("", "json", "E'[1,\\n2]'"),
    "array": ("", "json[]", "ARRAY[E'[1,\\n2]'::json]"),
    "domain": ("CREATE DOMAIN part AS json", "part", "E'[1,\\r2]'"),
    "composite": ("CREATE TYPE part AS (j json)", "part", "ROW(E'[1,\\n2]')"),
    "cast": (
        "CREATE TYPE part AS ENUM ('x'); CREATE FUNCTION odd(part) RETURNS json LANGUAGE sql AS "
        "$$SELECT E'[1,\\n2]'::json$$; CREATE CAST (part AS json) WITH FUNCTION odd(part)", "part", "'x'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", TWO_LINES)
def test_a_row_is_one_line_even_if_values_have_line_ends(tail: Tail, fresh: Connection, kind: str) -> None:
    statements, of_type, value = TWO_LINES[kind]
    insert(fresh, 1)
    text = tail("events", "--position", "p")
    fresh.execute(f"{statements}; ALTER TABLE events ADD part {of_type}".encode())
    fresh.execute(f"INSERT INTO events (n, part) VALUES (2, {value})".encode())
    text += tail("events", "--position", "p")
    assert [json.loads(line)["n"] for line in text.splitlines()] == [1, 2]


def test_text_does_not_depend_on_settings(tail: Tail, awkward: Connection) -> None:
    first = tail(ODD, "--position", "p")
    tail.environment |= {
        "PGOPTIONS": "-c extra_float_digits=0 -c bytea_output=escape -c intervalstyle=iso_8601",
        "PGDATESTYLE": "German", "PGCLIENTENCODING": "LATIN1", "PGTZ": "GMT",
    }  # fmt: skip
    second = tail(ODD, "--position", "q")
    assert second == first
    tail.environment["PGTZ"] = "Asia/Kolkata"
    assert json.loads(tail(ODD, "--position", "r"))["ts"] == "2019-01-01T12:00:00.123456+05:30"


@pytest.mark.editions("c")
def test_the_extension_may_be_in_any_schema(tail: Tail, fresh: Connection) -> None:
    fresh.execute("DROP EXTENSION inorder CASCADE")
    fresh.execute("DROP TABLE events")
    fresh.execute('CREATE SCHEMA "In {order}"')
    fresh.execute('CREATE EXTENSION inorder SCHEMA "In {order}"')
    fresh.execute('CREATE TABLE events (id uuid PRIMARY KEY DEFAULT "In {order}".uuid_xact_nextval(), n int)')
    fresh.execute("SELECT \"In {order}\".feed_create('f', 'events')")
    insert(fresh, 3)
    assert numbers(tail("events", "--position", "p")) == numbers(tail("--feed", "f")) == [1, 2, 3]


@pytest.mark.editions
def test_a_partitioned_table_with_its_own_key_is_read(tail: Tail, fresh: Connection) -> None:
    fresh.execute("""
        CREATE TABLE parts (k text, n int, xact bigint NOT NULL DEFAULT xact_id(), PRIMARY KEY (n, k))
            PARTITION BY RANGE (n);
        CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (6);
        CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (6) TO (100);
        CREATE INDEX ON parts (xact) WHERE xact > 0;
        SELECT feed_enable('parts');
        INSERT INTO parts SELECT 'k', generate_series(1, 10);
    """)
    arguments = ("parts", "--position", "p", "--batch-rows", "3")
    with tail.started(*arguments, "--exec", "cat >> out; test $(wc -l < out) -lt 6") as running:
        assert running.wait(PATIENCE) == 1
    assert tail.rows() == [1, 2, 3, 4, 5, 6]
    assert numbers(tail(*arguments)) == [4, 5, 6, 7, 8, 9, 10]  # the failed batch is delivered again
    fresh.execute("ALTER TABLE parts DETACH PARTITION parts_1")
    fresh.execute("DROP TABLE parts_1")
    fresh.execute("INSERT INTO parts VALUES ('k', 11)")
    assert numbers(tail(*arguments)) == [11]


def test_the_header_comes_once_per_stream(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 4)
    csv = ("events", "--format", "csv", "--batch-rows", "2", "--position")
    assert tail(*csv, "p").count("id,n\n") == 1
    assert tail(*csv, "p") == ""
    tail.appended(*csv, "q")
    insert(fresh, 1, 9)
    tail.appended(*csv, "q")
    lines = (tail.folder / "out").read_text().splitlines()
    assert lines[0] == "id,n" and [line[-2:] for line in lines[1:]] == [",1", ",2", ",3", ",4", ",9"]
    assert tail(*csv, "r", "--exec", "cat").count("id,n\n") == 3


def test_a_kill_in_mid_batch_repeats_nothing_in_a_file(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 12_000)
    arguments = ("events", "--position", "p", "--batch-rows", "4k")
    for size in (100_000, 300_000):
        with tail.started(*arguments, to="out", held_after=[size]) as running:
            running.kill()
        assert tail.state()["pending"] is not None
    tail.appended(*arguments)
    assert tail.rows() == list(range(1, 12_001))
    assert tail.state()["pending"] is None


def size_of(tail: Tail) -> int:
    return (tail.folder / "out").stat().st_size if (tail.folder / "out").exists() else 0


def killed_by_its_command(tail: Tail, *arguments: str) -> str:
    """Kill a run after its rows have arrived and before the position has moved, and return the rows."""
    received = tail.folder / "got"
    received.unlink(missing_ok=True)
    arguments = arguments or ("events", "--position", "p")
    with tail.started(*arguments, "--exec", "cat >> got; kill -9 $PPID") as running:
        assert running.wait(PATIENCE) == -signal.SIGKILL
    return received.read_text()


def test_a_kill_between_rows_and_position_repeats_that_batch(tail: Tail, fresh: Connection) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 3)
    for arguments in (("events", "--position", "p"), ("--feed", "f")):
        first = killed_by_its_command(tail, *arguments)
        insert(fresh, 2, 10)
        assert killed_by_its_command(tail, *arguments) == first
        output = tail(*arguments)
        assert output.startswith(first) and numbers(output[len(first) :])[-2:] == [10, 11]
        assert tail(*arguments) == ""


def test_a_command_that_fails_gets_its_batch_again(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 5)
    arguments = ("events", "--position", "p", "--batch-rows", "2", "--exec")
    assert '"exit 3" failed with exit code 3' in tail(*arguments, "exit 3", code=1)
    assert '"kill $$" failed with exit code -15' in tail(*arguments, "kill $$", code=1)
    assert tail(*arguments, "true") == ""
    assert tail(*arguments, "cat") == ""


def test_a_command_that_fails_is_run_again(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 4)
    count = 'echo "$INORDER_BATCH" >> names; test $(wc -l < names) -ge 3 && exec cat >> got; read row; exit 1'
    arguments = ("events", "--position", "p", "--batch-rows", "3", "--exec", count, "--retries")
    with tail.started(*arguments, "2") as running:
        assert running.wait(PATIENCE) == 0
        assert running.stderr and running.stderr.read().count(b"failed with exit code 1, trying again\n") == 2
    names = (tail.folder / "names").read_text().split()
    assert tail.rows("got") == [1, 2, 3, 4] and len(names) == 4 and len(set(names[:3])) == 1 and names[3] != names[0]
    insert(fresh, 1, 5)
    (tail.folder / "names").unlink()
    assert "failed with exit code 1; the next run repeats its batch" in tail(*arguments, "1", code=1)
    assert len((tail.folder / "names").read_text().split()) == 2


def test_a_stop_ends_the_wait_for_another_run_of_a_command(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 1)
    arguments = ("events", "--position", "p", "--follow", "--exec", "echo x >> ran; exit 1", "--retries", "1M")
    with tail.started(*arguments) as running:
        wait_for(lambda: (tail.folder / "ran").exists() and (tail.folder / "ran").stat().st_size >= 2 * len("x\n"))
        running.terminate()
        assert running.wait(PATIENCE) == 143
    assert numbers(tail("events", "--position", "p")) == [1]


def test_a_reader_that_closes_the_pipe_loses_no_row(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 100)
    with tail.started("events", "--position", "p", "--follow") as running:
        assert running.stdout and os.read(running.stdout.fileno(), 10) == b'{"id":"000'
        running.stdout.close()
        assert running.wait(PATIENCE) == 141
        assert running.stderr and running.stderr.read() == b""
    assert numbers(tail("events", "--position", "p")) == list(range(1, 101))


def test_a_closed_pipe_ends_an_idle_run(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 1)
    with tail.started("events", "--position", "p", "--follow", "--interval", "10ms") as running:
        assert running.stdout and b'"n":1' in running.stdout.readline()
        wait_for(lambda: tail.state()["pending"] is None)
        running.stdout.close()
        assert running.wait(PATIENCE) == 141
    assert tail("events", "--position", "p") == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_lets_the_batch_be_finished(tail: Tail, fresh: Connection, number: int, code: int) -> None:
    insert(fresh, 10_000)
    with tail.started("events", "--position", "p", "--follow", "--batch-rows", "4k") as running:
        assert running.stdout
        first = running.stdout.readline()
        running.send_signal(number)
        rows = numbers((first + running.stdout.read()).decode())
        assert running.wait(PATIENCE) == code, running.stderr and running.stderr.read()
    assert rows == list(range(1, 4_001)) and tail.state()["pending"] is None
    with tail.started("events", "--position", "p", "--follow", "--interval", "1h", to="out") as running:
        wait_for(lambda: size_of(tail))
        wait_for(lambda: tail.state()["pending"] is None)
        running.send_signal(number)
        assert running.wait(PATIENCE) == code, running.stderr and running.stderr.read()
    assert rows + tail.rows() == list(range(1, 10_001))[: len(rows + tail.rows())]


def test_a_second_signal_does_not_wait(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 20_000)
    with tail.started("events", "--position", "p", "--batch-rows", "20k") as running:
        wait_for(lambda: (tail.folder / "p").exists() and b'"batch"' in (tail.folder / "p").read_bytes())
        for number in (signal.SIGINT, signal.SIGTERM):  # two equal signals may be merged into one
            running.send_signal(number)
        assert running.wait(PATIENCE) == 130
    assert numbers(tail("events", "--position", "p")) == list(range(1, 20_001))


def test_only_one_run_at_a_time_is_possible(tail: Tail, fresh: Connection) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 1)
    with (
        tail.started("events", "--position", "p", "--follow") as running,
        tail.started("--feed", "f", "--follow") as feed,
    ):
        for tailing in (running, feed):
            assert tailing.stdout and b'"n":1' in tailing.stdout.readline()
        used = "is in use by another inorder tail"
        assert tail("events", "--position", "p", code=1) == f"inorder: p {used}, or by a command that it started\n"
        assert tail("--feed", "f", code=1) == f'inorder: feed "f" {used}\n'
    with tail.started("events", "--position", "q", "--follow", to="out"):
        wait_for(lambda: (tail.folder / "out").stat().st_size)
        with tail.started("events", "--position", "r", to="out") as second:
            assert second.wait(PATIENCE) == 1
            assert second.stderr and b"or a command that it started, writes to this file" in second.stderr.read()
    assert not (tail.folder / "r").exists()


def test_a_position_of_another_server_needs_consent(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 1)
    assert numbers(killed_by_its_command(tail)) == [1]
    text = (tail.folder / "p").read_text()
    origin = str(value(fresh, "SELECT inorder_internal.server_origin()"))
    (tail.folder / "p").write_text(text.replace(origin, "12345/1"))
    refused = tail("events", "--position", "p", code=2)
    assert "this position is of another server or timeline\nDETAIL:  The position was made on 12345/1, " in refused
    assert "HINT:  If no transaction was lost" in refused and "--accept-origin" in refused
    assert numbers(tail("events", "--position", "p", "--accept-origin")) == [1]
    assert tail("events", "--position", "p") == ""


BAD_INPUT = [
    (("--feed", "f"), 2, 'feed "f" of role "postgres" does not exist, or this role may not see it\nHINT:  --owner'),
    (("--feed", "f", "--owner", "x y"), 2, 'feed "f" of role "x y" does not exist, or this role may not see it'),
    (("none", "--position", "p"), 2, 'relation "none" does not exist'),
    (("a b", "--position", "p"), 2, "invalid name syntax"),
    (("pg_class", "--position", "p"), 2, "table pg_class is not enabled for feeds and exact counts\nDETAIL:"),
    (("events", "--position", "p", "--dsn", "dbname=template1"), 2, 'the database "template1" has no extension'),
    (("events", "--position", "p", "--dsn", "dbname=nowhere"), 1, 'database "nowhere" does not exist'),
]


def test_invalid_input_causes_one_clear_error_message_and_writes_no_file(tail: Tail, fresh: Connection) -> None:
    errors = [(arguments, message, tail(*arguments, code=code)) for arguments, code, message in BAD_INPUT]
    assert [case for case in errors if case[1] not in case[2]] == []
    assert list(tail.folder.iterdir()) == []


def test_a_similar_name_is_in_the_hint(tail: Tail, fresh: Connection) -> None:
    fresh.execute('CREATE TABLE "Order Lines" (id int)')
    fresh.execute("SELECT feed_create('mailer', 'events')")
    for name, similar in (("event", "public.events"), ("orderlines", """'public."Order Lines"'""")):
        assert f"HINT:  Did you mean {similar}?" in tail(name, "--position", "p", code=2)
    assert "Did you mean" not in tail("nothing_like_it", "--position", "p", code=2)
    assert "HINT:  Did you mean mailer?" in tail("--feed", "mailr", code=2)


def test_memory_does_not_grow_with_the_batch(tail: Tail, fresh: Connection) -> None:
    fresh.execute("CREATE TABLE wide (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), t text)")
    fresh.execute("SELECT feed_enable('wide')")
    program = (
        "import resource, sys\nfrom inorder.cli import cli\ncli(sys.argv[1:], standalone_mode=False)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    peaks = []
    for rows in (300, 3000):
        fresh.execute("INSERT INTO wide (t) SELECT repeat('x', 10000) FROM generate_series(1, %s)", (rows,))
        with (tail.folder / "out").open("wb") as out:
            done = subprocess.run(
                [sys.executable, "-c", program, "tail", "wide", "--position", "p", "--batch-rows", "1M"],
                check=True, stdout=out, stderr=subprocess.PIPE, cwd=tail.folder, env=tail.environment,
            )  # fmt: skip
        assert (tail.folder / "out").stat().st_size > 10_000 * rows
        peaks.append(int(done.stderr) * 1024)
    assert peaks[1] - peaks[0] < 10_000_000


def test_an_idle_poll_does_not_write_the_position_file(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 1)
    with tail.started("events", "--position", "p", "--follow", "--interval", "10ms") as running:
        assert running.stdout and b'"n":1' in running.stdout.readline()
        wait_for(lambda: tail.state()["pending"] is None)
        before = (tail.folder / "p").stat().st_mtime_ns
        for _ in range(20):
            fresh.execute("SELECT pg_current_xact_id()")
            time.sleep(0.01)
        assert (tail.folder / "p").stat().st_mtime_ns == before
        insert(fresh, 1, 2)
        assert b'"n":2' in running.stdout.readline()
