"""Statements that test an installation: they generate a key, read a feed and count rows exactly."""

# Statements, each with the output of psql -XAtq, or None if the output is not compared.
STATEMENTS: dict[str, str | None] = {
    "SET client_min_messages = warning": None,
    "CREATE EXTENSION inorder": None,
    "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)": None,
    "SELECT feed_create('billing', 'events')": "",
    "INSERT INTO events (n) VALUES (1), (2), (3)": None,
    "SELECT count(DISTINCT uuid_xact_id(id)) FROM events": "1",
    "SELECT n FROM feed_read('billing', null::events)": "1\n2\n3",
    "SELECT n FROM feed_read('billing', null::events) WHERE n > 0": None,
    "SELECT exact_count_start('events')": "3",
    "SELECT exact_count('events')": "3",
    "INSERT INTO events (n) SELECT generate_series(4, 10)": None,
    "SELECT exact_count('events') = 10, (SELECT count(*) FROM feed_read('billing', null::events))": "t|7",
    "SELECT uuid_v7_time(uuid_v7_nextval()) > now() - interval '1 hour'": "t",
}
LEFT = (
    "SELECT count(*) FROM pg_proc WHERE probin LIKE '%inorder%' OR pronamespace = to_regnamespace('inorder_internal')"
)
REMOVAL: dict[str, str | None] = {
    "SET client_min_messages = warning": None,
    "DROP TABLE IF EXISTS events": None,
    "DROP EXTENSION inorder CASCADE": None,
    LEFT: "0",
}


def script(statements: dict[str, str | None]) -> str:
    return "".join(f"{statement};\n" for statement in statements)


def printed(statements: dict[str, str | None]) -> str:
    return "".join(f"{line}\n" for line in statements.values() if line is not None)
