"""The tool against an untrusted server: it terminates, and escapes control characters in messages."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from inorder.connection.database import connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from psycopg.conninfo import conninfo_to_dict

import preloaded
from conftest import LONG_RUN, install_edition
from hostile import Liar, OneLie, hostile
from sql_edition import BUILT, TESTED
from tail_runs import make_table
from waiting import PATIENCE
from world.sql import run

pytestmark = pytest.mark.server

NAMED = '"a\n\x1b[2JHINT:  Run this."'  # table name chosen by its owner
COMMANDS = (
    "tail events --position p", "tail events --position c --format csv", "tail events --position b --format binary",
    "tail --feed f", "tail --feed f --format csv",
    "tail events --position o --order-by n", "tail events --position x --format parquet --directory d",
    "tail events --position a --format arrow", "tail events --position s --shards",
    "feeds", "feeds --format json", "feeds --format prometheus",
    "feeds --check 1m", "count show events", "count show events --format json", "count fold events", "prepare old",
    "prepare old --dry-run", "citus events --dry-run", "install --dry-run",
    "advise --least 1B", "advise --format json", "advise --over 1s --sample",
)  # fmt: skip
OBEYED = {*range(32), 127} - {*b"\t\n"}
ODD = "a\x1b[2J\r\x7f\x9b31m\tü"
LIES = 3 if LONG_RUN else 2  # number of runs of each command


class Lied:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.runs = cluster, folder, 0

    def run(self, command: str, liar: Liar) -> subprocess.CompletedProcess[bytes]:
        real = conninfo_to_dict(self.cluster.dsn)
        self.runs += 1
        place = self.folder / str(self.runs)
        place.mkdir()
        environment = self.cluster.environment() | {"PGHOST": str(place), "PGPORT": "5432", "PGDATABASE": "lied_to"}
        with hostile(place, Path(str(real["host"])) / f".s.PGSQL.{real['port']}", liar):
            return preloaded.run(command.split(), place, environment, PATIENCE)

    def environment(self, user: str = "postgres") -> dict[str, str]:
        return self.cluster.environment() | {"PGDATABASE": "lied_to", "PGUSER": user}

    def tool(self, *arguments: str, user: str = "postgres") -> subprocess.CompletedProcess[bytes]:
        return preloaded.run(arguments, self.folder, self.environment(user), PATIENCE)


@pytest.fixture(scope="module")
def lied(server: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lied]:
    with Cluster(server, BUILT) as running:
        running.start({"fsync": "off"})
        with connect(running.dsn) as admin:
            run(admin, "CREATE DATABASE lied_to")
        install_edition(TESTED, server, running, "lied_to")
        with connect(f"{running.dsn} dbname=lied_to") as admin:
            make_table(admin)
            run(admin, "INSERT INTO events (n) SELECT generate_series(1, 50)", "CREATE INDEX ON events (n)")
            run(admin, "SELECT feed_create('f', 'events'), exact_count_start('events')")
            run(admin, "CREATE TABLE old (id int PRIMARY KEY)")
        yield Lied(running, tmp_path_factory.mktemp("l"))


@pytest.mark.parametrize("command", ["tail events --position p", "tail --feed f"])
@pytest.mark.parametrize("lie", ["copy_in", "copy_both", "error_and_copy"])
def test_a_command_ends_if_the_server_starts_copy_instead_of_sending_rows(lied: Lied, command: str, lie: str) -> None:
    """libpq returns the same COPY result on each call. Without a check, a loop over the results would never end."""
    liar = OneLie(b"H", lie)
    done = lied.run(command, liar)
    assert liar.told and done.returncode == 1 and b"Traceback" not in done.stderr, done


def test_text_that_is_not_utf8_causes_one_clear_error_message(lied: Lied) -> None:
    """The schema name contains a byte that is not valid UTF-8, as is possible in a SQL_ASCII database."""
    done = lied.run("count show events", OneLie(b"D", "latin", b"public"))
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"inorder: text that is not UTF-8: b'\\xe4'\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_messages_of_a_server_have_no_effect_on_the_terminal(lied: Lied, command: str) -> None:
    """The server changes messages at random. The seed is derived from the command."""
    wrong = []
    for number in range(LIES):
        liar = Liar(sum(command.encode()) + number, 40)
        done = lied.run(command, liar)
        obeyed = {byte for byte in done.stderr if byte < 32} - {10} or b"\xc2\x9b" in done.stderr
        if done.returncode not in (0, 1, 2, 3) or obeyed or b"Traceback" in done.stderr:
            wrong.append((number, liar.told, done))
    assert wrong == []


def test_the_name_of_a_table_cannot_imitate_a_line_of_the_tool(lied: Lied) -> None:
    with connect(f"{lied.cluster.dsn} dbname=lied_to") as admin:
        run(admin, f"CREATE TABLE {NAMED} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())")
        run(admin, f"SELECT feed_enable('{NAMED}')", "CREATE ROLE other LOGIN")
    runs = [lied.tool("tail", "events", "--position", "kept"), lied.tool("tail", NAMED, "--position", "kept")]
    runs += [lied.tool("prepare", NAMED, user="other"), lied.tool("tail", NAMED, "--position", "new", "--shards")]
    assert [done.returncode for done in runs] == [0, 2, 2, 2]
    assert all(rb"a\n\x1b[2JHINT" in done.stderr for done in runs[1:3]), runs
    assert not any(b"\x1b" in done.stderr or rb"\n\x1b" in done.stderr[:2] for done in runs), runs


def test_names_are_unchanged_except_on_a_terminal(lied: Lied) -> None:
    name = NAMED.replace("a", "b", 1)
    with connect(f"{lied.cluster.dsn} dbname=lied_to") as admin:
        run(admin, f"CREATE TABLE {name} (id int PRIMARY KEY)")
        admin.execute("SELECT feed_create(%s, 'events')", [name[1:-1] + "\x9b31m"])
    assert f"ALTER TABLE public.{name} ADD".encode() in lied.tool("prepare", name, "--dry-run").stdout
    assert b"\xc2\x9b31m" in lied.tool("feeds", "--format", "json").stdout
    for command, expected in (
        (["prepare", name, "--dry-run"], rb'ALTER TABLE public."b'), (["feeds", "--format", "json"], b'"feed": "b'),
    ):  # fmt: skip
        shown = on_a_terminal(lied, command)
        assert expected in shown and b"[2JHINT" in shown and b"\x1b" not in shown and b"\xc2\x9b" not in shown, shown


def test_rows_are_unchanged_except_on_a_terminal(lied: Lied) -> None:
    """On a terminal, column names are escaped like values, and binary formats are rejected."""
    tail = ["tail", "odd", "--position"]
    with connect(f"{lied.cluster.dsn} dbname=lied_to") as admin:
        run(admin, 'CREATE TABLE odd (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), "c\x1b[2J\x9b31m" text)')
        run(admin, "SELECT feed_enable('odd')")
        assert not set(OBEYED) & set(on_a_terminal(lied, [*tail, "empty", "--format", "csv"]).replace(b"\r\n", b"\n"))
        admin.execute("INSERT INTO odd VALUES (DEFAULT, %s)", [ODD])
    for form, shown in (
        ("csv", (r"c\x1b[2J\x9b31m", ',"a\\x1b[2J\\x0d\\x7f\\x9b31m\tü"\r\n')),
        ("json", (r'"c\u001b[2J\u009b31m"', r'"a\u001b[2J\r\u007f\u009b31m\tü"')),
    ):
        written = lied.tool(*tail, form, "--format", form).stdout
        assert b"\x7f\xc2\x9b31m" in written
        output = on_a_terminal(lied, [*tail, f"{form} shown", "--format", form]).decode()
        assert all(text in output for text in shown), output
        assert not {*map(chr, OBEYED), "\x9b"} & set(output.replace("\r\n", "\n")), output
    for form in ("binary", "arrow"):
        assert b"cannot show the format" in on_a_terminal(lied, [*tail, form, "--format", form], code=2)


def on_a_terminal(lied: Lied, command: list[str], code: int = 0) -> bytes:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        with os.fdopen(theirs, "wb") as out:
            running = preloaded.Run(command, lied.folder, lied.environment(), out, out)
            assert running.wait(PATIENCE) == code
        shown = b""
        with suppress(OSError):  # end of the output
            while data := terminal.read(65536):
                shown += data
        return shown
