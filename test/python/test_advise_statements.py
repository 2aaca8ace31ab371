"""inorder advise finds polling statements in the form in which programs send them, and reports no other statements.

It reads the statements from the server and from files.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from inorder.advise import statements
from inorder.advise.statements import LONGEST, classified, understood, walk
from inorder.cli import cli
from inorder.connection.database import connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

import preloaded
from conftest import LONG_RUN
from examples import parsed
from tool import inorder
from waiting import PATIENCE
from world.sql import run

EVENTS = "(id bigserial PRIMARY KEY, tenant int, n int, created_at timestamptz DEFAULT now(), body text)"
SCHEMA = f"""CREATE TABLE events {EVENTS};
CREATE TABLE orders (id uuid PRIMARY KEY, created_at timestamptz DEFAULT CURRENT_TIMESTAMP, total numeric, stock int);
CREATE TABLE positions (name text PRIMARY KEY, last bigint);
CREATE TABLE users (id int PRIMARY KEY, age int, name text);
CREATE TABLE totals (day timestamptz, n bigint);"""
# One of these queries fetches a page of a list that an application displays. It looks like a poll.
POLLS = (
    "SELECT id, body FROM events WHERE id > $1 ORDER BY id LIMIT 100",
    "SELECT id, extract(epoch FROM created_at) FROM events WHERE id > $1 ORDER BY id",
    "SELECT e.* FROM events AS e WHERE e.id >= $1::bigint ORDER BY e.id ASC NULLS LAST FETCH FIRST 10 ROWS ONLY",
    "SELECT id, body FROM events WHERE $1 < id ORDER BY id",
    "SELECT id, body FROM events WHERE id > cast($1 AS bigint) ORDER BY id",
    "SELECT id, body FROM events WHERE id > coalesce($1, 0) ORDER BY id",
    "SELECT id, body FROM events WHERE id > $1 + 1 ORDER BY id",
    "SELECT id, body FROM events WHERE id BETWEEN $1 AND $2 ORDER BY id",
    "SELECT id, body FROM events WHERE id > $1 ORDER BY 1",
    "SELECT id AS key, body FROM events WHERE id > $1 ORDER BY key",
    "SELECT id, body FROM events WHERE id > $1",
    "SELECT * FROM events WHERE created_at > $1",
    "SELECT id, body FROM events WHERE created_at > $1 AND created_at < now() - interval '5 s' ORDER BY created_at",
    "SELECT id, body FROM events WHERE created_at > to_timestamp($1::float8) ORDER BY extract(epoch FROM created_at)",
    "SELECT id, body FROM events WHERE (created_at, id) > ($1, $2) ORDER BY created_at, id",
    "SELECT id FROM events WHERE created_at > $1 OR (created_at = $2 AND id > $3) ORDER BY created_at, id",
    "SELECT id, body FROM events WHERE ($1::bigint IS NULL OR id > $2) ORDER BY id",
    "SELECT id, body FROM events WHERE tenant = $1 AND id > $2 ORDER BY tenant, id",
    "SELECT id, body FROM events WHERE id > (SELECT last FROM positions WHERE name = $1) ORDER BY id",
    "SELECT e.id, u.name FROM events AS e JOIN users AS u ON u.id = e.n WHERE e.id > $1 ORDER BY e.id",
    "WITH fresh AS (SELECT * FROM events WHERE id > $1 ORDER BY id LIMIT 10) SELECT * FROM fresh",
    "WITH every AS (SELECT * FROM events) SELECT * FROM every WHERE id > $1 ORDER BY id",
    "SELECT * FROM (SELECT id, body FROM events) AS s WHERE s.id > $1 ORDER BY s.id",
    "INSERT INTO totals SELECT date_trunc('day', created_at), count(*) FROM events WHERE id > $1 GROUP BY 1",
)
OTHERS = (
    "SELECT id, body FROM events WHERE id > $1 ORDER BY id DESC LIMIT 20",
    "SELECT id, body FROM events WHERE id < $1 ORDER BY id DESC LIMIT 20",
    "SELECT id, body FROM events WHERE id = $1 ORDER BY id",
    "SELECT id, body FROM events ORDER BY id LIMIT $1 OFFSET $2",
    "SELECT id, body FROM events WHERE n > $1 ORDER BY id LIMIT 20",
    "SELECT id, body FROM events WHERE n > $1",
    "SELECT n FROM events WHERE id > $1",
    "SELECT id, body FROM events WHERE body > $1 ORDER BY body",
    "SELECT id, body FROM events WHERE id > $1 OR body = $2 ORDER BY id",
    "SELECT id, body FROM events WHERE id IN ($1, $2) ORDER BY id",
    "SELECT id, body FROM events WHERE body = $1 ORDER BY id FOR UPDATE SKIP LOCKED",
    "SELECT id > $1 FROM events ORDER BY id",
    "SELECT * FROM events WHERE created_at > now() - make_interval(secs => $1) ORDER BY created_at",
    "SELECT * FROM events WHERE id > $1 AND n < pg_snapshot_xmin(pg_current_snapshot())::text::bigint ORDER BY id",
    "SELECT count(*) FROM events WHERE created_at > $1",
    "SELECT sum(total) FROM orders WHERE created_at BETWEEN $1 AND $2",
    "SELECT date_trunc('day', created_at) AS day, count(*) FROM orders WHERE created_at >= $1 GROUP BY 1 ORDER BY 1",
    "SELECT * FROM orders WHERE total > (SELECT avg(total) FROM orders) AND stock <> $1 ORDER BY total",
    "SELECT * FROM orders WHERE total > $1 ORDER BY total",
    "SELECT * FROM orders WHERE stock > $1",
    "SELECT name FROM users WHERE age > $1",
    "SELECT e.id FROM events AS e JOIN users AS u ON e.id > u.id WHERE e.n = $1 ORDER BY e.id",
    "SELECT * FROM generate_series(1, $1) AS id WHERE id > $2 ORDER BY id",
    "DELETE FROM events WHERE id < $1",
)
# Placeholders for parameters in the syntax of drivers, psql and sqlc.
STYLES = {"$": "$", "psycopg": "%s", "by name": "%({})s", "colon": ":p{}", "question mark": "?", "sqlc": "@p{}"}


def in_style(text: str, style: str) -> str:
    for number in (1, 2, 3):
        text = text.replace(f"${number}", STYLES[style].format(number)) if style != "$" else text
    return text


def written(folder: Path, texts: Sequence[str], name: str = "queries.sql") -> str:
    (folder / name).write_text(";\n".join(texts) + ";\n")
    return name


def advised(folder: Path, *names: str, options: Sequence[str] = ()) -> dict[str, Any]:
    done = inorder("advise", *[word for name in names for word in ("--statements", name)], "--format", "json", *options,
                   folder=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@pytest.mark.parametrize("style", STYLES)
def test_every_poll_in_a_file_and_nothing_else_is_reported_with_its_line(tmp_path: Path, style: str) -> None:
    name = written(tmp_path, [in_style(text, style) for text in (*POLLS, *OTHERS)])
    schema = written(tmp_path, [SCHEMA.rstrip(";")], "schema.sql")
    data = advised(tmp_path, name, schema)
    places = {finding["evidence"][0]["source"]: finding["table"] for finding in data["findings"]}
    assert places == {f"{name}:{line}": '"events"' for line in range(1, len(POLLS) + 1)}
    assert data["not_seen"] == [] and {finding["id"] for finding in data["findings"]} == {"polling-reader"}
    ways = {f"inorder lab check {way}" for way in ("id", "created", "lag")}
    assert {finding["measure"] for finding in data["findings"]} == ways
    for finding in data["findings"]:
        parsed(cli, finding["measure"].split()[1:])


@pytest.fixture(scope="module")
def forms(server: Installation) -> Iterator[Cluster]:
    if not (server.sharedir / "extension" / "pg_stat_statements.control").exists():
        pytest.skip("this server has no pg_stat_statements")
    with Cluster(server) as running:
        running.start({"shared_preload_libraries": "pg_stat_statements", "fsync": "off", "autovacuum": "off"})
        with connect(running.dsn) as admin:
            run(admin, "CREATE EXTENSION pg_stat_statements", *SCHEMA.split("\n"))
            run(admin, "INSERT INTO events SELECT FROM generate_series(1, 2000)",
                    "INSERT INTO users SELECT generate_series(1, 2000)",
                    "INSERT INTO orders SELECT gen_random_uuid() FROM generate_series(1, 2000)", "ANALYZE")  # fmt: skip
        yield running


def environment_of(cluster: Cluster) -> dict[str, str]:
    return dict(os.environ) | cluster.environment() | {"PGDATABASE": "postgres", "PGUSER": "postgres"}


def called(cluster: Cluster, texts: Sequence[str]) -> None:
    """Execute each statement ten times through PREPARE, which infers the parameter types.

    All parameters are null, which is valid for any type.
    """
    with connect(cluster.dsn) as admin:
        run(admin, "SELECT pg_stat_statements_reset()")
        for text in texts:
            number = max(int(digit) for digit in "123" if f"${digit}" in text)
            for _ in range(10):
                run(admin, f"PREPARE p AS {text}", f"EXECUTE p ({', '.join(['NULL'] * number)})", "DEALLOCATE p")
        run(admin, "SELECT pg_stat_force_next_flush()")


@pytest.mark.server
def test_every_poll_that_a_server_ran_and_nothing_else_is_reported(forms: Cluster, tmp_path: Path) -> None:
    def found(*texts: str) -> tuple[list[str], list[str]]:
        called(forms, texts)
        done = preloaded.run(["advise", "--format", "json"], tmp_path, environment_of(forms), PATIENCE)
        assert done.returncode == 0, done.stderr
        data = json.loads(done.stdout)
        return [f"{finding['id']} {finding['table']}" for finding in data["findings"]], data["not_seen"]

    polls = POLLS if LONG_RUN else POLLS[::6]
    wrong = [text for text in polls if found(text) != (['polling-reader "public"."events"'], [])]
    assert wrong == [] and found(*OTHERS) == ([], [])


def test_statements_that_are_not_understood_are_counted_with_their_location(tmp_path: Path) -> None:
    texts = ("SELECT FROM {{ table }}", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
             "SELECT * FROM other WHERE id > $1", "\\set x 1\nSELECT 1 \\gset\nSELECT :x", f"SELECT {'1, ' * LONGEST}1",
             "COPY t FROM stdin;\nit's\n\\.\nSELECT * FROM other WHERE id > $1 ORDER BY id")  # fmt: skip
    data = advised(tmp_path, written(tmp_path, texts))
    assert data["not_seen"] == [
        '2 statements not understood: queries.sql:1 (syntax error at or near "{"), '
        "queries.sql:7 (longer than 10,000 characters)",
        "1 statement with a body that was not read: queries.sql:2",
        "1 statement without ORDER BY, of tables whose CREATE TABLE is not in the files: queries.sql:3",
    ]
    assert [finding["evidence"][0]["source"] for finding in data["findings"]] == ["queries.sql:11"]


def test_reading_changes_is_advised_for_a_table_with_updates_or_deletes(tmp_path: Path) -> None:
    for change in ("DELETE FROM events WHERE id < $1", "UPDATE events SET body = $1"):
        (finding,) = advised(tmp_path, written(tmp_path, [POLLS[0], change]))["findings"]
        assert "inorder prepare '\"events\"' --changes" in finding["remedy"][-1]
    (finding,) = advised(tmp_path, written(tmp_path, [POLLS[0]]))["findings"]
    assert "--changes" not in str(finding["remedy"])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [(("--fail-on", "polling-reader"), 3, ""), (("--fail-on", "any"), 3, ""), (("--fail-on", "random-key"), 0, ""),
     (("--statements", "latin.sql"), 2, "latin.sql is not UTF-8")],
)  # fmt: skip
def test_advise_on_statements_exits_with_the_expected_code(
    tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9'")
    done = inorder("advise", "--statements", written(tmp_path, POLLS), *arguments, folder=tmp_path)
    assert done.returncode == code and message in done.stderr


WITHOUT = "import sys; sys.modules[{package!r}] = None; from inorder.cli import main; main()"


@pytest.mark.parametrize(
    ("package", "arguments"),
    [("pglast", ["--statements", "queries.sql"]), ("pglast", ["--fail-on", "polling-reader"]),
     ("pglast", ["--fail-on", "any", "--over", "10min"]), ("jinja2", ["--format", "html", "--over", "10min"])],
)  # fmt: skip
def test_a_missing_package_is_named_before_anything_is_read(package: str, arguments: list[str]) -> None:
    program = WITHOUT.format(package=package)
    done = subprocess.run([sys.executable, "-c", program, "advise", *arguments], check=False, capture_output=True,
                          text=True, timeout=PATIENCE, env=dict(os.environ) | {"PGHOST": "/nowhere"})  # fmt: skip
    assert done.returncode == 2 and f"needs {package}, which is not installed; HINT: " in done.stderr
    assert "[advise]'" in done.stderr


@pytest.mark.server
def test_without_pglast_advise_reports_that_statements_were_not_parsed(forms: Cluster) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT.format(package="pglast"), "advise"], check=False,
                          capture_output=True, text=True, timeout=PATIENCE, env=environment_of(forms))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the parser pglast is not installed here; HINT: " in done.stdout and "[advise]'" in done.stdout


# Each statement is almost as long as inorder advise accepts. Visiting all descendants of each node would take too long.
def nested(opening: str, closing: str, inner: str) -> str:
    times = LONGEST // len(opening + closing) - 10
    return opening * times + inner + closing * times


HOSTILE = {
    "or": "SELECT * FROM t WHERE " + nested("a > $1 OR (", ")", "a > $1"),
    "and": "SELECT * FROM t WHERE " + nested("a > $1 AND (", ")", "a > $1"),
    "coalesce": "SELECT * FROM t WHERE a > " + nested("coalesce(", ")", "$1"),
    "subqueries": nested("SELECT * FROM (", ") AS a", "SELECT * FROM t WHERE a > $1"),
    "with": "WITH a0 AS (SELECT * FROM t)" + "".join(f", a{i + 1} AS (SELECT * FROM a{i}, a{i})" for i in range(200))
            + " SELECT * FROM a200 WHERE a > $1 ORDER BY a",
    "aliases": "SELECT " + "a AS b," * 800 + "a FROM t WHERE a > $1 ORDER BY " + "b," * 1000 + "b",
    "plus": "SELECT " + "1+" * (LONGEST // 2 - 10) + "1",
    "casts": "SELECT 1" + "::a" * (LONGEST // 3 - 10),
    "parentheses": "SELECT " + nested("(", ")", "1"),
}  # fmt: skip
PARSE = """
import json, sys
from inorder.advise.statements import understood
for name, text in json.load(sys.stdin).items():
    print(name, flush=True)
    understood(text)
"""


def test_hostile_statements_neither_hang_nor_crash_the_program() -> None:
    """Anyone can write a statement, so a separate process parses it: the parser recurses in C and may crash."""
    assert [name for name, text in HOSTILE.items() if len(text) > LONGEST] == []
    command, statements = [sys.executable, "-c", PARSE], json.dumps(HOSTILE)
    done = subprocess.run(command, check=False, input=statements, timeout=PATIENCE, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, list(HOSTILE)), done.stderr
    for text in HOSTILE.values():
        assert understood(f"{text}{' ' * LONGEST}") == "longer than 10,000 characters"


GROWING: dict[str, Callable[[int], str]] = {
    "subqueries": lambda size: "SELECT * FROM (" * size + "SELECT * FROM t WHERE a > $1" + ") AS a" * size,
    "aliases": lambda size: f"SELECT {'a AS b,' * size}a FROM t WHERE a > $1 ORDER BY {'b,' * size}b",
}


@pytest.mark.parametrize("name", GROWING)
def test_the_work_grows_linearly_with_the_length_of_a_statement(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    visited = 0

    def counted(*nodes: Any) -> Iterator[Any]:
        nonlocal visited
        for node in walk(*nodes):
            visited += 1
            yield node

    monkeypatch.setattr(statements, "walk", counted)
    classified(GROWING[name](100))
    once, visited = visited, 0
    classified(GROWING[name](200))
    assert visited < 2.2 * once
