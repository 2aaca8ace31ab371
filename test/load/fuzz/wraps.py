"""Statements that call a function: alone, in a query, in a block that catches errors, through a cursor, or prepared."""

import random

from load.fuzz.values import quote

# A block that catches errors. Internal errors are logged, because the client does not receive them.
CAUGHT = """BEGIN EXECUTE {text}; EXCEPTION WHEN OTHERS THEN
IF SQLSTATE OPERATOR(pg_catalog.=) 'XX000'::pg_catalog.text THEN
RAISE LOG 'fuzz: internal error %', SQLERRM; END IF; END"""
PLAIN = (
    "SELECT {call}", "SELECT {call}", "SELECT {call}", "SELECT * FROM {call} AS c", "SELECT * FROM {call} AS c LIMIT 1",
    "SELECT c FROM {call} AS c WHERE c IS NOT NULL", "SELECT {call} FROM generate_series(1, 3)",
    "SELECT 1 WHERE EXISTS (SELECT {call})", "EXPLAIN (VERBOSE, COSTS OFF) SELECT {call}",
    "EXPLAIN ANALYZE SELECT {call}",
    "SELECT (SELECT count(*) FROM (SELECT {call}) AS s)", "CREATE TABLE mallory.made AS SELECT {call} AS c",
    "SELECT ({call})::text", "CREATE VIEW mallory.seen AS SELECT {call} AS c", "SELECT * FROM mallory.seen",
    "SELECT CASE WHEN n > 5 THEN ({call})::text END FROM generate_series(1, 10) AS n",
    "INSERT INTO mallory.sink SELECT 1 WHERE ({call}) IS NOT NULL",
    "ALTER TABLE mallory.sink ADD CHECK (({call}) IS NULL)",
    "CREATE INDEX ON mallory.sink ((({call})::text))", "ALTER TABLE mallory.sink ALTER x SET DEFAULT ({call})::int",
    "SELECT * FROM mallory.sink WHERE x::text = ({call})::text", "VALUES ({call}), ({call})",
    "SELECT count(*) FROM (SELECT {call} AS c FROM generate_series(1, 20) GROUP BY 1) AS s",
    "CREATE FUNCTION mallory.by_sql() RETURNS text LANGUAGE sql RETURN ({call})::text", "SELECT mallory.by_sql()",
    "CREATE DOMAIN mallory.checked AS text CHECK (({call}) IS NULL OR true)", "SELECT 'x'::mallory.checked",
    "CREATE POLICY p ON mallory.sink USING (({call}) IS NULL)", "SELECT mallory.nest({quoted})",
    "CALL mallory.commit_around({quoted})",
    "CREATE RULE r AS ON INSERT TO mallory.sink DO ALSO SELECT {call}",
    "CREATE MATERIALIZED VIEW mallory.kept AS SELECT {call} AS c",
    "REFRESH MATERIALIZED VIEW mallory.kept",
)  # fmt: skip
# Statements that begin or end a (sub)transaction.
TRANSACTIONS = (
    "BEGIN", "BEGIN", "COMMIT", "COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT s", "SAVEPOINT s", "ROLLBACK TO s",
    "ROLLBACK TO s", "RELEASE s", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "BEGIN READ ONLY", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE", "SET CONSTRAINTS ALL IMMEDIATE",
    "SET CONSTRAINTS ALL DEFERRED", "PREPARE TRANSACTION 'fuzz'", "COMMIT PREPARED 'fuzz'", "ROLLBACK PREPARED 'fuzz'",
    "COMMIT AND CHAIN", "DISCARD PLANS", "DISCARD TEMP", "CLOSE ALL",
)  # fmt: skip


def wrapped(rng: random.Random, call: str) -> list[str]:
    chance = rng.random()
    if chance < 0.6:
        form = rng.choice(PLAIN)
        return [form.replace("{call}", call).replace("{quoted}", quote(f"SELECT {call}"))]
    if chance < 0.72:
        caught = CAUGHT.replace("{text}", quote(f"SELECT {call}")).replace("$fuzz$", "")
        return [f"DO LANGUAGE plpgsql $fuzz${caught}$fuzz$"]
    if chance < 0.8:
        name = f"c{rng.randrange(3)}"
        kind = rng.choice(("CURSOR", "CURSOR", "SCROLL CURSOR", "CURSOR WITH HOLD", "SCROLL CURSOR WITH HOLD"))
        return [
            f"DECLARE {name} {kind} FOR SELECT * FROM {call} AS c",
            f"FETCH {rng.choice(('1', 'ALL', 'BACKWARD ALL', 'LAST', 'RELATIVE 2'))} FROM {name}", f"CLOSE {name}",
        ][: rng.randint(1, 3)]  # fmt: skip
    if chance < 0.95:
        name = f"p{rng.randrange(100_000)}"
        executions = [f"EXECUTE {name}"] * rng.choice((1, 2, 7))
        return [f"PREPARE {name} AS SELECT {call}", *executions]
    return [f"FETCH ALL FROM c{rng.randrange(3)}"]
