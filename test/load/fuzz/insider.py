"""Attacks by the role that installed the extension: not a superuser, but allowed to write the state for pg_restore."""

import random
from dataclasses import replace

from load.fuzz.calls import Calls
from load.fuzz.catalogue import Catalogue
from load.fuzz.honest import MAY_RUN, READS, Honest
from load.fuzz.oracles import Oracles
from load.fuzz.session import Session
from load.fuzz.values import Values
from load.fuzz.world import World

CALLS = 25
ROWS = 12
HIGHEST_ID = 4_294_967_295
GARBAGE = (
    "DELETE FROM inorder_internal.feed_state AS s USING inorder_internal.feed AS f WHERE f.id = s.feed "
    "AND f.name LIKE 'fuzz %'",
    "DELETE FROM inorder_internal.feed WHERE name LIKE 'fuzz %'",
    "DELETE FROM inorder_internal.feed_table AS f WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = f.relation "
    "AND c.relowner = 'alice'::regrole)",
    "DELETE FROM inorder_internal.count_part AS p WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = p.relation "
    "AND c.relowner = 'alice'::regrole)",
)


def names(rng: random.Random, values: Values) -> str:
    own_column = values.focus.column.strip('"').replace('""', '"')
    columns = (own_column, "n", "k", "id", "", "x'y", "%s", "ctid", "tableoid", "no such")
    picked = ", ".join(
        values.plain("name") if rng.random() < 0.1 else f"$n${rng.choice(columns)}$n$" for _ in range(rng.randint(0, 3))
    )
    return f"ARRAY[{picked}]::name[]"


def table_row(rng: random.Random, values: Values, relation: str) -> str:
    columns, is_uuid = names(rng, values), rng.choice(("true", "false"))
    key = f"coalesce(({columns})[1], 'id')"
    order = f"ARRAY[{key}]" if is_uuid == "true" else names(rng, values)
    base = values.plain("bigint") if rng.random() < 0.5 else "'0'"
    flags = f"{is_uuid}, {rng.choice(('true', 'false'))}, {order}, {base}, {rng.choice(('true', 'false'))}"
    return f"INSERT INTO inorder_internal.feed_table SELECT {relation}, {key}, {flags}"


def feed_row(rng: random.Random, values: Values, relation: str) -> str:
    role = rng.choice(("alice", "mallory", "reader", "postgres", "nobody"))
    owner = rng.choice((f"'{role}'::regrole, '{role}'", f"'{role}'::regrole, 'alice'", "0, ''", "4294967295, 'x'"))
    movers = rng.choice(("'{}'", "ARRAY[NULL]", "ARRAY[ROW('mallory'::regrole, 'mallory')]"))
    batch = rng.choice((0, 1, 9223372036854775807))
    return (
        "WITH f AS (INSERT INTO inorder_internal.feed (id, name, owner, owner_name, system, movers, relation) "
        f"SELECT {rng.randrange(1, HIGHEST_ID)}, 'fuzz {values.focus.feed}', {owner}, 'x', "
        f"{movers}::inorder_internal.role_ref[], {relation} RETURNING id, relation) "
        "INSERT INTO inorder_internal.feed_state (feed, relation, position, batch, moved) "
        f"SELECT id, relation, {values.position()}, {batch}, {values.of('timestamp with time zone')} FROM f"
    )


def count_row(rng: random.Random, values: Values, relation: str) -> str:
    partition = values.regclass() if rng.random() < 0.5 else relation
    number = rng.choice(("0", "5", "9223372036854775807"))
    columns = f"{values.of('text')}, {values.multirange()}, {number}, now()"
    return f"INSERT INTO inorder_internal.count_part SELECT {relation}, {partition}, {columns}"


def garbage(rng: random.Random, values: Values) -> str:
    """Return a statement that inserts a row that no function of the extension would write."""
    values.look_elsewhere()
    relation = values.regclass() if rng.random() < 0.7 else f"{values.plain('oid')}::oid::regclass"
    make = rng.choice((table_row, table_row, feed_row, feed_row, count_row))
    return make(rng, values, relation)


class Insider:
    def __init__(self, place: World, parts: Catalogue, values: Values, rng: random.Random) -> None:
        internal = [function for function in parts.functions if function.schema != "public"]
        self.world, self.rng, self.values = place, rng, values
        self.calls = Calls(rng, Catalogue(internal, parts.operators, parts.casts, parts.types), values)

    def turn(self, oracles: Oracles, honest: Honest, mallory: Session) -> None:
        session = self.world.session("installer")
        session.run("SET search_path = pg_catalog")
        for _ in range(CALLS):
            self.look(oracles, session, f"SELECT {self.calls.any()}")
        for _ in range(ROWS):
            self.look(oracles, session, garbage(self.rng, self.values))
        if ran := [run for run in oracles.check_log(session, session.pid) if not run.startswith(MAY_RUN)]:
            self.world.fail("ran", f"{ran} by the installer", session)
        oracles.remember()
        honest.see_feeds(mallory)
        for role in ("postgres", "alice"):
            honest.read_foreign(role, mallory)
        honest.as_role("alice", mallory)
        self.read(oracles, honest, mallory)
        oracles.check_log(session)
        for statement in GARBAGE:
            self.world.admin.execute(statement.encode())
        session.close()
        oracles.remember()

    def read(self, oracles: Oracles, honest: Honest, mallory: Session) -> None:
        """Read from forged feeds, which feed_create() never created, as the superuser."""
        session = honest.open("postgres")
        for relation in honest.known():
            session.run("BEGIN")
            allowed = honest.run_plain(session, relation, mallory)
            for role in ("alice", "mallory", "reader", "postgres", "nobody"):
                forged = replace(relation, feed=f"fuzz {relation.feed}", owner=role)
                honest.compare_read(session, forged, self.rng.choice(READS), allowed, mallory)
            session.run(self.rng.choice(("COMMIT", "ROLLBACK")))
        oracles.check_log(mallory)

    def look(self, oracles: Oracles, session: Session, statement: str) -> None:
        outcome = session.run(statement)
        oracles.check_errors(session, outcome)
        oracles.check_time(session, outcome)
