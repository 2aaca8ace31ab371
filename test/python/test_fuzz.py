"""A short run of script/fuzz succeeds, and script/fuzz detects planted faults."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from inorder.installations import Installation

from conftest import LONG_RUN
from load.fuzz import evil
from load.fuzz.catalogue import read
from load.fuzz.honest import Honest
from load.fuzz.oracles import Oracles, is_internal
from load.fuzz.report import Result, show
from load.fuzz.run import run, run_sessions
from load.fuzz.session import Session
from load.fuzz.values import Relation
from load.fuzz.world import World, world
from waiting import PATIENCE

pytestmark = pytest.mark.server

SECONDS = 300  # maximum duration of a run
SEED = 14  # with this seed, six sessions call as many functions as nine sessions with other seeds
# The number of sessions, the minimum number of calls, and the minimum fraction of the functions that must be called.
# Both minimums are low, because sessions also wait for each other.
SESSIONS, LEAST_CALLS, LEAST_CALLED = (6, 1000, 0.85) if LONG_RUN else (2, 150, 0.3)
DEFINER = (
    "CREATE OR REPLACE FUNCTION public.feed_hole() RETURNS void LANGUAGE plpgsql SECURITY DEFINER "
    "AS $hole$BEGIN {} END$hole$"
)
OF_EVENTS, OF_MINE = (
    f"feed = (SELECT id FROM inorder_internal.feed WHERE name = '{name}')" for name in ("events", "mine")
)


def test_no_right_is_gained_and_no_fault_is_found(server: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    if not LONG_RUN:  # each session lets the others run after half of its statements, and at its end
        monkeypatch.setattr("load.fuzz.run.STATEMENTS", 120)
        monkeypatch.setattr("load.fuzz.run.TURN_EVERY", 60)
    result = run(server, SECONDS, SEED, SESSIONS)
    print(show(result))
    assert not result.failures
    assert result.outcomes.total() >= LEAST_CALLS and len(result.called) >= LEAST_CALLED * result.offered
    assert min(result.outcomes["ok"], result.outcomes["fast path ok"], result.evil_runs) > 0


@pytest.fixture(scope="module")
def place(server: Installation) -> Iterator[World]:
    """Yield a server with the roles of script/fuzz.

    Tests plant faults in the objects and the state of these roles.
    """
    with world(server, 1) as new_world:
        new_world.admin.execute(
            "ALTER TABLE inorder_internal.feed_state ALTER written_here DROP EXPRESSION, "
            "ALTER written_here SET DEFAULT true"
        )
        yield new_world


@pytest.fixture
def mallory(place: World) -> Iterator[Session]:
    session = place.session("mallory")
    for statement in evil.BASE:
        session.run(statement)
    place.log.read()
    place.failures.clear()
    place.seen.clear()
    yield session
    session.close()
    place.admin.execute("DROP FUNCTION IF EXISTS public.feed_hole()")
    place.clear()
    place.welcome()


def found(place: World) -> dict[str, str]:
    return {failure.oracle: failure.text for failure in place.failures}


def fall_into(place: World, mallory: Session, body: str) -> dict[str, str]:
    place.admin.execute(DEFINER.format(body).encode())
    oracles = Oracles(place)
    oracles.remember()
    oracles.look(mallory, False)
    oracles.after(mallory, mallory.run("SELECT public.feed_hole()"), True)
    oracles.compare(mallory)
    oracles.check_log(mallory)
    return found(place)


@pytest.mark.parametrize(
    ("body", "oracle", "text"),
    [
        ("PERFORM mallory.evil(1::bigint);", "ran", "mallory.evil(bigint) ran as postgres"),
        ("GRANT SELECT ON alice.secret TO mallory;", "rights", "relations changed"),
        ("GRANT alice TO mallory;", "rights", "members changed"),
        ("ALTER FUNCTION public.feed_drop(text, regrole) SECURITY DEFINER;", "rights", "functions changed"),
        ("ALTER TABLE alice.events DISABLE TRIGGER ALL;", "rights", "triggers changed"),
        (f"UPDATE inorder_internal.feed_state SET moved = now() WHERE {OF_EVENTS};",
         "state", "state of feeds of others changed"),
        ("UPDATE inorder_internal.count_part SET rows = rows + 1 WHERE relation = 'alice.secret'::regclass;",
         "state", "counts of others changed"),
        ("PERFORM set_config('search_path', 'mallory', false);", "settings", "['search_path'] changed by the call"),
        ("PERFORM pg_sleep(2);", "time", "57014 after"),
        ("PERFORM pg_sleep(3);", "time", "ok after"),
        ("RAISE 'cache lookup failed' USING ERRCODE = 'XX000';", "internal error", "cache lookup failed"),
        ("RAISE WARNING 'buffer refcount leak';", "log", "buffer refcount leak"),
        ("PERFORM pg_terminate_backend(pg_backend_pid());", "crash", ""),
    ],
)  # fmt: skip
def test_a_security_hole_is_found(place: World, mallory: Session, body: str, oracle: str, text: str) -> None:
    if "pg_sleep(3)" in body:
        mallory.run("SET statement_timeout = 0")
    failed = fall_into(place, mallory, body)
    restore(place)
    assert oracle in failed and text in failed[oracle], failed


def test_an_internal_error_of_the_server_itself_is_no_finding(place: World, mallory: Session) -> None:
    for statement in ("CREATE TABLE mallory.gone (n int)", "PREPARE p AS SELECT NULL::mallory.gone",
                      "EXECUTE p", "DROP TABLE mallory.gone"):  # fmt: skip
        assert mallory.run(statement).ok
    outcome = mallory.run("EXECUTE p")
    assert outcome.state == "XX000" and not is_internal(outcome)
    assert is_internal(replace(outcome, statement="SELECT public.feed_peek('f', NULL::mallory.gone)"))


def restore(place: World) -> None:
    for statement in (
        "REVOKE SELECT ON alice.secret FROM mallory", "REVOKE alice FROM mallory",
        "ALTER FUNCTION public.feed_drop(text, regrole) SECURITY INVOKER",
        *(f"ALTER TABLE alice.events ENABLE ALWAYS TRIGGER zz_inorder_{name}"
          for name in ("guard", "update", "truncate")),
    ):  # fmt: skip
        place.admin.execute(statement.encode())


def others(place: World) -> Honest:
    """Return the honest roles before they have read anything."""
    place.admin.execute(
        "UPDATE inorder_internal.feed_state SET position.transactions = '{}', position.partial = NULL, "
        "position.last_key = NULL, position.ordering = NULL "
        "WHERE NOT (position).transactions @> 1999::bigint"
    )
    oracles = Oracles(place)
    oracles.remember()
    return Honest(place, random.Random(1), oracles)


def turn(place: World, mallory: Session) -> dict[str, str]:
    honest = others(place)
    honest.turn(mallory)
    honest.close()
    return found(place)


def test_honest_roles_find_nothing_without_faults(place: World, mallory: Session) -> None:
    assert turn(place, mallory) == {}


@pytest.mark.parametrize(
    ("break_it", "mend_it", "oracle", "text"),
    [
        ("UPDATE inorder_internal.count_part SET rows = rows + 1",
         "UPDATE inorder_internal.count_part SET rows = rows - 1",
         "count", "exact_count of"),
        (f"UPDATE inorder_internal.feed_state SET position.transactions = '{{[0,2000)}}' WHERE {OF_MINE}",
         f"UPDATE inorder_internal.feed_state SET position.transactions = '{{}}' WHERE {OF_MINE}",
         "honest", "ahead of the server"),
        ("REVOKE SELECT ON public.feeds FROM PUBLIC",
         "GRANT SELECT ON public.feeds TO PUBLIC", "honest", "permission denied"),
        ("UPDATE inorder_internal.feed SET owner = 10 WHERE name = 'events'",
         "UPDATE inorder_internal.feed SET owner = 'alice'::regrole WHERE name = 'events'",
         "honest", 'feed "events" of role alice'),
    ],
)  # fmt: skip
def test_honest_roles_notice_planted_faults(
    place: World, mallory: Session, break_it: str, mend_it: str, oracle: str, text: str
) -> None:
    place.admin.execute(break_it.encode())
    failed = turn(place, mallory)
    place.admin.execute(mend_it.encode())
    assert text in failed.get(oracle, "nothing"), failed


def test_rows_that_come_twice_are_found(place: World, mallory: Session) -> None:
    honest = others(place)
    honest.turn(mallory)
    assert found(place) == {}
    place.admin.execute(f"UPDATE inorder_internal.feed_state SET position.transactions = '{{}}' WHERE {OF_EVENTS}")
    honest.oracles.remember()
    honest.turn(mallory)
    honest.close()
    assert "twice ['" in found(place).get("feed", "nothing")


def test_a_hostile_function_run_by_another_role_is_found(place: World, mallory: Session) -> None:
    oracles = Oracles(place)
    honest = Honest(place, random.Random(1), oracles)
    session = honest.open("alice")
    honest.must(session, "SELECT mallory.evil(1::bigint)", mallory)
    honest.close()
    assert "mallory.evil(bigint) as alice" in found(place)["ran"]


def test_only_functions_that_a_plain_query_also_runs_are_allowed(place: World, mallory: Session) -> None:
    oracles = Oracles(place)
    honest = Honest(place, random.Random(1), oracles)
    mallory.run("CREATE TABLE mallory.t (id uuid PRIMARY KEY, n int)")
    mallory.run("CREATE INDEX ON mallory.t (mallory.evil(1::bigint))")
    relation = Relation("t", "mallory.t")
    session = honest.open("postgres")
    session.run("BEGIN")
    allowed = honest.run_plain(session, relation, mallory)
    assert allowed == {"mallory.evil(bigint) as postgres"}
    honest.compare_read(session, relation, "SELECT mallory.evil(1::bigint)", allowed, mallory)
    assert found(place) == {}
    honest.compare_read(session, relation, "SELECT mallory.evil(1)", allowed, mallory)
    honest.close()
    assert "mallory.evil(integer) as postgres" in found(place)["ran"]


def test_a_crash_is_found(server: Installation) -> None:
    with world(server, 2) as place:
        mallory = place.session("mallory")
        body = "COPY (SELECT 1) TO PROGRAM 'kill -SEGV $PPID'; PERFORM pg_sleep(1);"
        place.admin.execute(DEFINER.format(body).encode())
        outcome = mallory.run("SELECT public.feed_hole()")
        oracles = Oracles(place)
        oracles.after(mallory, outcome, True)
        assert place.cluster.process is not None
        place.cluster.process.wait(PATIENCE)
        oracles.check_log(mallory)
        assert "crash" in found(place) and "terminated by signal" in found(place)["log"]
        mallory.close()


def test_a_random_run_finds_a_security_hole(server: Installation) -> None:
    with world(server, 3) as place:
        place.admin.execute(DEFINER.format("PERFORM mallory.evil(1::bigint);").encode())
        place.admin.execute("ALTER EXTENSION inorder ADD FUNCTION public.feed_hole()")
        parts = read(place.admin)
        hole = [function for function in parts.functions if function.signature == "public.feed_hole()"]
        result = Result("", 3, 0)
        # Offer only a few functions. If all were offered, a session might never call this one.
        run_sessions(place, result, float("inf"), 1, replace(parts, functions=hole + parts.functions[:9]))
        result.failures = place.failures
        assert "ran as postgres" in found(place)["ran"]
        assert "feed_hole" in show(result) and "FAILED" in show(result)
