"""inorder lab check: faults of planted readers, correct readers, programs, and schedules that can be replayed."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from math import factorial, prod
from pathlib import Path
from typing import Any

import pytest
from inorder.connection.database import connect
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.check.arena import Arena, Failure, Outcome, run_case, run_load
from inorder.lab.check.history import History, Judgement, Polled, Stall, Written, judge
from inorder.lab.check.programs import Program
from inorder.lab.check.report import of_reader
from inorder.lab.check.schedule import CASES, COPY_CASES, SHORT, Case, Step, interleavings, of_text
from inorder.lab.check.session import Session
from inorder.lab.check.verdict import ROWS, Checked, in_words, sentence
from inorder.lab.check.ways import Way, built_in, ways_in, ways_of
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.target import Target
from inorder.lab.targets.throw_away import ThrowAway
from psycopg import pq

import check_page
from conftest import LONG_RUN, text
from tool import inorder

SAMPLES = Path(__file__).parent / "samples"
PLANTED = ways_in((SAMPLES / "planted.toml").read_text())
WAYS = built_in()
NAMED = {case.name: case for case in CASES}
# Maximum number of random loads until a load finds a fault. On a stalled machine, a load may write only a few rows.
LOADS = 30
# Number of schedules per case, starting with the hardest. For readers without faults, script/test --long runs all
# schedules.
FEW = 3 if LONG_RUN else 1
SOME_CASES, SOME_COPY_CASES = (CASES, COPY_CASES) if LONG_RUN else (CASES[::3], COPY_CASES[1::3])
# Planted readers: a case, the fault that it must show, and a case whose schedules show no fault ("" for none).
FAULTY = {
    "plain": ("overlap", "lost", "rollback"),
    "inclusive": ("overlap", "twice", ""),
    "lag": ("long", "lost", "overlap"),
    "ties": ("many rows", "lost", ""),
    "xmax": ("overlap", "lost", "rollback"),
    "late": ("between statements", "lost", "overlap"),
    "sessions": ("prepared", "lost", "overlap"),
    "subtransactions": ("savepoints", "lost", "overlap"),
    "deleted": ("killed reader", "lost", "overlap"),
    "backwards": ("overlap", "disorder", ""),
    "cached": ("cached ids", "lost", "overlap"),
}


@pytest.fixture(scope="module")
def target(server: Installation) -> Iterator[Target]:
    with Cluster(server) as cluster:
        new_target = ThrowAway(cluster)
        new_target.serve({"wal_level": "logical", "max_prepared_transactions": "10", "fsync": "off"})
        with new_target.connect() as connection:
            new_target.create_schema(connection)
        yield new_target


def outcome(target: Target, way: Way, case: str, most: int | None = None) -> Outcome:
    with closing(Arena(target, way)) as arena:
        return run_case(arena, NAMED[case], most)


A, B = Written("A", 1, ["1"], 6, True), Written("B", 2, ["2"], 3, True, clock=2)


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        ([Polled(7, 8, ("1", "2"))], Judgement()),
        ([Polled(4, 5, ("2",)), Polled(7, 8, ("1",))], Judgement()),
        ([Polled(4, 5, ("2",)), Polled(7, 8)], Judgement(lost=("1",))),
        ([Polled(4, 5, ("2",)), Polled(7, 8, ("1", "2"))], Judgement(twice=("2",))),
        ([Polled(4, 5, (), 9), Polled(7, 8, ("1", "2"))], Judgement(stalled=(Stall("2", ("A",), 7),))),
        ([Polled(4, 5, (), 9, killed=True), Polled(7, 8, ("1", "2"))], Judgement()),
        ([Polled(7, 8, ("1",), 9), Polled(9, 10, ("2",))], Judgement(stalled=(Stall("2", (), 7),))),
    ],
)
def test_lost_repeated_and_stalled_rows_are_told_apart(polls: list[Polled], expected: Judgement) -> None:
    assert judge(History(transactions=[A, B], polls=polls)) == expected


def test_a_row_after_its_consequence_is_out_of_order() -> None:
    cause, later = Written("A", 1, ["1"], 2, True), Written("B", 3, ["2"], 4, True)
    for keys, disordered in ((("1", "2"), ()), (("2", "1"), ("1",))):
        assert judge(History(transactions=[cause, later], polls=[Polled(5, 6, keys)])).disorder == disordered


@pytest.mark.parametrize("lengths", [(2, 2), (2, 2, 1), (3, 1, 2)])
def test_each_interleaving_is_generated_once(lengths: tuple[int, ...]) -> None:
    orders = list(interleavings(lengths))
    assert len(orders) == len(set(orders)) == factorial(sum(lengths)) // prod(map(factorial, lengths))


def test_equal_transactions_are_not_exchanged() -> None:
    """Schedules that differ only in the order of identical transactions find the same faults, so one is enough."""
    schedules = list(Case("three", (SHORT, SHORT, SHORT), 1).schedules())
    swapped = {
        tuple((step.session.translate(str.maketrans("AB", "BA")), step.words) for step in schedule)
        for schedule in schedules
    }
    assert not swapped & {tuple((step.session, step.words) for step in schedule) for schedule in schedules}


@pytest.mark.parametrize("name", FAULTY)
def test_a_planted_fault_is_found_by_a_forced_schedule(target: Target, name: str) -> None:
    case, fault, passes = FAULTY[name]
    assert fault in outcome(target, PLANTED[name], case).failures
    if passes:
        assert not {"lost", "twice", "disorder"} & outcome(target, PLANTED[name], passes).failures.keys()


def checked(**faults: Judgement) -> Checked:
    """Return a result with these faults in the case "overlap", each found by a schedule of one step."""
    outcome = Outcome("overlap", 7)
    outcome.failures = {fault: Failure((Step("A", "x"),), History(), judged) for fault, judged in faults.items()}
    return Checked(WAYS["updated" if "differs" in faults else "id"], [outcome])


@pytest.mark.parametrize(
    ("faults", "words", "says"),
    [
        ({}, "", "No: none of 7 schedules, and no random load, loses a row"),
        ({"lost": Judgement(lost=("1",))}, "lost in 1 steps", "Yes: the reader loses rows of transactions that"),
        ({"twice": Judgement(twice=("1",))}, "returned twice in 1 steps", "No row is lost, but the reader returns"),
        ({"disorder": Judgement(disorder=("1",))}, "out of order in 1 steps", "after rows of transactions that began"),
        ({"differs": Judgement(differs=("1",))}, "differs in 1 steps", "Yes: the copy differs from the table"),
        (
            {"stalled": Judgement(stalled=(Stall("1", ("A",), 62),))},
            "62 s, while A is open",
            "wait for open transactions, here for up to 62 s",
        ),
    ],
)
def test_the_verdict_is_a_sentence(faults: dict[str, Judgement], words: str, says: str) -> None:
    checked_reader = checked(**faults)
    assert says in sentence(checked_reader)
    assert [of_reader(fault, checked_reader) for fault in faults] == [f"{words} (overlap)"] * len(faults)


def test_the_most_severe_fault_is_the_verdict() -> None:
    checked_reader = checked(stalled=Judgement(stalled=(Stall("1", (), 1),)), lost=Judgement(lost=("1",)))
    assert sentence(checked_reader).startswith("Yes: the reader loses")


def test_the_rows_at_risk_are_described_for_each_case() -> None:
    assert ROWS.keys() == {case.name for case in (*CASES, *COPY_CASES)} | {"random load"}


def test_a_parameter_has_the_type_of_its_column(target: Target) -> None:
    """The query subtracts an interval from the parameter, which fails unless the parameter is a timestamp."""
    way = Way("typed", "typed", "SELECT id, created_at FROM events WHERE created_at > :created_at - interval '1 s'",
              start={"created_at": "-infinity"})  # fmt: skip
    with closing(Arena(target, way)) as arena, arena.table(NAMED["overlap"]):
        assert arena.play(of_text("A: insert, A: commit, reader: poll")).lost == []


def test_every_fault_has_a_planted_reader() -> None:
    assert PLANTED.keys() == FAULTY.keys()


FAULTLESS = {"horizon": {"stalled"}, "decoding": set[str](), "feed": set[str](), "worker": set[str]()}


@pytest.mark.parametrize("name", FAULTLESS)
def test_no_fault_is_found_in_a_correct_reader(target: Target, name: str) -> None:
    with closing(Arena(target, WAYS[name])) as arena:
        assert {fault for case in SOME_CASES for fault in run_case(arena, case, FEW).failures} <= FAULTLESS[name]
        assert run_load(arena, 0.5, seed=1).failures == {}


@pytest.mark.parametrize(
    ("name", "missed"), [("airbyte-xmin", {"deletes", "key changed", "truncated"}), ("changes", set[str]())]
)
def test_a_copy_lacks_the_changes_that_its_reader_does_not_see(target: Target, name: str, missed: set[str]) -> None:
    with closing(Arena(target, WAYS[name])) as arena:
        assert {case.name for case in SOME_COPY_CASES if run_case(arena, case, FEW).failures} == missed
        loads = ([*run_load(arena, 0.5, seed).failures] for seed in range(LOADS if missed else 1))
        assert next((faults for faults in loads if faults), []) == ["differs"] * bool(missed)


@pytest.mark.parametrize(("name", "case"), [("updated", "updates"), ("updated-lag", "long update")])
def test_a_copy_by_the_time_of_the_update_misses_an_update(target: Target, name: str, case: str) -> None:
    with closing(Arena(target, WAYS[name])) as arena:
        (planned,) = (candidate for candidate in COPY_CASES if candidate.name == case)
        failures = run_case(arena, planned, 9).failures
    assert [*failures] == ["differs"] and len(failures["differs"].judged.differs) == 1


def test_an_interrupt_at_the_end_of_a_setup_leaves_no_feed(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up = Arena.set_up

    def interrupted(arena: Arena, cache: int) -> None:
        set_up(arena, cache)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Arena, "set_up", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest-xdist processes ignore this signal
    try:
        with closing(Arena(target, built_in()["feed"])) as arena:
            with pytest.raises(KeyboardInterrupt), arena.table(CASES[0]):
                pass
            assert arena.control.run("SELECT name FROM feeds").rows == []
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_random_load_finds_lost_rows(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader confirms rows that it has not read, and both a random load and a schedule find the lost rows.

    The loads are not checked for stalls.
    """
    confirmed = replace(
        built_in()["decoding"], finish="SELECT pg_replication_slot_advance('inorder_check', pg_current_wal_lsn())"
    )
    with closing(Arena(target, confirmed)) as arena, monkeypatch.context() as without:
        without.delattr("inorder.lab.check.history.stalls")
        assert any("lost" in run_load(arena, 0.5, seed).failures for seed in range(LOADS))
    assert "lost" in outcome(target, confirmed, "between statements").failures


@pytest.mark.parametrize("name", FAULTLESS)
def test_no_schedule_finds_a_fault_in_a_correct_reader(target: Target, name: str) -> None:
    with closing(Arena(target, WAYS[name])) as arena:
        assert {fault for case in CASES for fault in run_case(arena, case).failures} == FAULTLESS[name]


def test_the_reader_on_the_page_shows_no_fault(target: Target) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", text("docs/check.md"), re.S)
    (way,) = ways_in(block).values()
    assert [outcome(target, way, case, 10).failures for case in ("overlap", "killed reader")] == [{}, {}]


def sql_of_sets() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", text("docs/sets.md"), re.S)


def drawing_ids(table: str) -> str:
    return "CREATE SEQUENCE ids;\n" + table.replace("GENERATED BY DEFAULT AS IDENTITY", "DEFAULT nextval('ids')")


def horizon_on_the_page() -> Way:
    table, poll, *_ = sql_of_sets()
    return Way("ten lines", "ten lines", poll, drawing_ids(table), start={"xact": "0", "id": "0"})


def sets_on_the_page() -> Way:
    table, batch, rows = sql_of_sets()[2:]
    setup = drawing_ids(table)
    poll = batch.replace("ended() - done AS batch", "NULL AS key, ended() - done AS batch") + rows.replace(
        "$1", ":batch"
    )
    return Way("sets", "sets", poll, setup, teardown="DROP TABLE positions;\nDROP FUNCTION ended")


@pytest.mark.parametrize(("way", "faults"), [(horizon_on_the_page(), {"stalled"}), (sets_on_the_page(), set[str]())])
def test_the_readers_on_the_page_lose_nothing(target: Target, way: Way, faults: set[str]) -> None:
    with closing(Arena(target, way)) as arena:
        assert {fault for case in SOME_CASES for fault in run_case(arena, case, FEW).failures} == faults


def test_the_tables_on_the_page_are_those_of_the_files() -> None:
    page = text("docs/results/readers-18.md")
    assert check_page.with_table(page, check_page.ways()) == page


def test_each_file_contains_the_reader_of_its_name_with_its_verdict() -> None:
    for folder in check_page.FOLDERS:
        for file in folder.glob("*.toml"):
            (way,) = ways_in(file.read_text()).values()
            assert way.name == file.stem
            assert {"date", "server", "schedules"} <= way.verdict.keys(), way.name
            of_others = way.project and way.project != "inorder" and not way.project.startswith("PostgreSQL")
            assert not of_others or (way.source and way.version), way.name


def test_the_schedule_of_each_verdict_shows_its_fault(target: Target) -> None:
    """script/readers runs the schedules of readers that need libraries."""
    differs = dict[tuple[str, str], str]()
    for way in [*WAYS.values()][:: 1 if LONG_RUN else 3]:
        for fault, verdict in ((fault, way.verdict[fault]) for fault in way.faults if fault in way.verdict):
            if not (schedule := of_text(verdict.get("schedule", ""))):
                continue
            (case,) = (case for case in way.cases if case.name == verdict["case"])
            with closing(Arena(target, way)) as arena, arena.table(case):
                history = arena.play(schedule)
                words = in_words(fault, Failure(schedule, history, arena.judged(history)))
            differs |= {(way.name, fault): words} if words != verdict["words"] else {}
    assert differs == {}


def test_a_schedule_gives_ids_in_the_same_order_each_time(target: Target) -> None:
    """Sessions discard ids cached in earlier schedules. A cache of 20 ids lasts for ten schedules."""
    schedule, orders = of_text("A: insert, A: commit, B: insert, B: commit, A: insert, A: commit"), set[str]()
    with closing(Arena(target, WAYS["id"])) as arena, arena.table(NAMED["cached ids"]):
        for _ in range(11):
            written = arena.play(schedule).transactions
            ids = sorted((int(key), transaction.session) for transaction in written for key in transaction.keys)
            orders.add("".join(session for _, session in ids))
    assert orders == {"AAB"}


def test_waiting_writers_are_counted_and_are_no_fault(target: Target) -> None:
    """A reader that locks the table makes some schedules impossible.

    The lock is not a fault, but it makes writers wait.
    """
    way = Way("locked", "id > last, and a lock", "SELECT id FROM events WHERE id > :last ORDER BY id",
              begin="BEGIN; LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE", start={"last": "0"})  # fmt: skip
    result = outcome(target, way, "overlap")
    assert result.failures == {} and result.waited > 0


PROGRAM = """
import json, os, sys, psycopg
with psycopg.connect("", autocommit=True) as connection:
    for line in sys.stdin:
        asked = json.loads(line)
        last = asked["last"] or 0
        for (key,) in connection.execute("SELECT id FROM events WHERE id > %s ORDER BY id", [last]):
            print(json.dumps(key))
            last = max(last, key)
        print(json.dumps({"last": last}), flush=True)
"""


def test_a_program_polls_when_it_is_told(target: Target, tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(PROGRAM)
    way = Way("program", "program", program=shlex.join([sys.executable, str(tmp_path / "reader.py")]))
    assert "lost" in outcome(target, way, "overlap").failures
    killed = outcome(target, way, "killed reader", 1)
    assert (killed.schedules, killed.failures) == (1, {})


def test_a_program_that_is_killed_forgets_its_polls() -> None:
    counts = "import json, sys\nfor n, _ in enumerate(sys.stdin, 1): print(json.dumps({'last': n}), flush=True)"
    with closing(Program(shlex.join([sys.executable, "-c", counts]), {})) as program:
        for kill in (False, True, False):
            program.begin(1, "2026-01-01", kill)
            assert program.wait(lambda _: ()) == () and program.rows(1, kill) == ()
        assert program.position == 1


# A program that exits at the first poll during which a transaction is prepared.
UNTIL_PREPARED = """
import json, psycopg
with psycopg.connect("", autocommit=True) as connection:
    seen = set()
    while input() and not connection.execute("SELECT FROM pg_prepared_xacts").fetchall():
        new = {key for (key,) in connection.execute("SELECT id FROM events")} - seen
        seen |= new
        print(*map(json.dumps, new), json.dumps({"last": 0}), sep="\\n", flush=True)
"""


def test_a_program_that_fails_leaves_nothing_prepared(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prepared transaction would keep its locks, and dropping the table would wait for them."""
    monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=1min")
    way = Way("program", "program", program=shlex.join([sys.executable, "-c", UNTIL_PREPARED]))
    with pytest.raises(InputError, match="ended with exit code 0 in the middle of a poll"):
        outcome(target, way, "prepared")
    with target.connect() as connection:
        assert connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []


def test_a_query_of_another_table_is_an_error_that_names_the_table(server: Installation, tmp_path: Path) -> None:
    for poll in ("SELECT id FROM orders WHERE id > :last", "SELECT event_id FROM events WHERE id > :last"):
        done = inorder("lab", "check", "--sql", poll, folder=tmp_path, server=server)
        assert done.returncode == 2 and "\nHINT:  --sql polls the table events (id, created_at, xact). " in done.stderr


def test_the_shortest_schedule_is_printed_and_can_be_replayed(
    server: Installation, cluster: Cluster, tmp_path: Path
) -> None:
    """The data, the page and the script contain the schedule.

    Each line of the script has the same effect on any server.
    """
    poll = "SELECT id FROM events WHERE id > :last ORDER BY id"
    words = "--schedules 3 --load 0.1s --fail-on lost,twice --format json --script lost.sql --html page.html"
    done = inorder("lab", "check", "--sql", poll, *words.split(), folder=tmp_path, server=server)
    assert done.returncode == 3, done.stderr
    ((lost,),) = [[record["faults"]["lost"]] for record in json.loads(done.stdout)]
    assert lost["case"] == "overlap" and lost["psql"] == (tmp_path / "lost.sql").read_text()
    assert lost["diagram"].splitlines()[-1] == "row 1 is committed, and no poll returns it: lost"
    assert lost["diagram"].splitlines()[1] in (tmp_path / "page.html").read_text()
    with connect(cluster.dsn) as admin:
        admin.execute("CREATE DATABASE replay")
        assert replayed(server, cluster, lost["psql"].splitlines()).split() == ["2"]
        with connect(f"{cluster.dsn} dbname=replay") as connection:
            assert connection.execute("SELECT id FROM events ORDER BY id").fetchall() == [(1,), (2,)]
        admin.execute("DROP DATABASE replay")


def replayed(server: Installation, cluster: Cluster, lines: list[str]) -> str:
    psql = [str(server.program("psql")), "-XqAt", "-d", "replay", "-v", "ON_ERROR_STOP=1"]
    with ExitStack() as stack:
        sessions = {
            name: stack.enter_context(subprocess.Popen(psql, stdin=-1, stdout=-1, text=True, env=cluster.environment()))
            for name in ("A", "B", "reader")
        }
        printed, lines_so_far = "", ""
        for line in lines:
            text, _, name = line.rpartition("  -- ")
            lines_so_far += f"{text or line}\n" if not line.startswith("--") else ""
            if not text:
                continue
            session = sessions[name]
            assert session.stdin and session.stdout
            session.stdin.write(f"{lines_so_far}\\echo done\n")
            session.stdin.flush()
            output = "".join(iter(session.stdout.readline, "done\n"))
            printed, lines_so_far = printed + (output if name == "reader" else ""), ""
        for session in sessions.values():
            session.communicate()
    return printed


class Patient:
    """A connection that limits the number of results, because unread results would otherwise fill the memory."""

    def __init__(self, real: pq.abc.PGconn) -> None:
        self.real, self.left = real, 10

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def get_result(self) -> pq.abc.PGresult | None:
        self.left -= 1
        assert self.left > 0
        return self.real.get_result()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("COPY (SELECT 1) TO STDOUT", "cannot copy from or to the client"),
        ("COPY pg_am FROM STDIN", "cannot copy from or to the client"),
        ("DO $$ BEGIN RAISE 'mine' USING ERRCODE = 'AB123'; END $$", "mine"),
    ],
)
def test_a_statement_that_cannot_be_a_poll_is_named(cluster: Cluster, statement: str, message: str) -> None:
    with connect(cluster.dsn) as connection:
        session = Session(connection)
        session.server = Patient(connection.pgconn)  # type: ignore[assignment]
        with pytest.raises(InputError, match=message) as caught:
            session.run(statement)
        assert statement in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ways.toml has no readers"),
        (b"[mine", "cannot use ways.toml: this is not TOML: "),
        (b"\xff", "cannot use ways.toml: "),
        (b"mine = 1", "mine is not a table"),
        (b"[mine]\npoll = 3", "mine: Expected `str`, got `int` - at `$.poll`"),
        (b"[mine]\npoll = 'SELECT 1'\nstart.last = 0", "mine: Expected `str`, got `int` - at `$.start[...]`"),
        (b"[mine]\npoll = 'SELECT 1'\ncopies = 'yes'", "mine: Expected `bool`, got `str` - at `$.copies`"),
        (b"[mine]\npol = 'SELECT 1'", "mine: unknown pol"),
        (b"[mine]\nname = 'other'", "mine: unknown name"),
        (b"[mine]\ntitle = 'no poll'", "mine has neither a poll nor a program"),
        (b"[mine]\npoll = ';'", "mine has neither a poll nor a program"),
        (b"[mine]\npoll = 'SELECT now()'", "HINT: Use :now"),
    ],
)
def test_the_error_names_what_is_wrong_in_a_file_of_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ways.toml").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(message)):
        ways_of(Path("ways.toml"))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("true", "true ended with exit code 0 in the middle of a poll"),
        ("sh -c 'exit 7'", "ended with exit code 7 in the middle of a poll"),
        ("echo 1", "echo 1 ended with exit code 0 in the middle of a poll"),
        ("no-such-program", 'cannot run "no-such-program": the program does not exist'),
        ("echo 'open", 'cannot run "echo \'open": it is not a shell command'),
        (" ", 'cannot run " ": it is not a shell command'),
        (f'sh -c \'printf "%{100_000}s\\n" | tr " " [; cat\'', "neither a key nor the end of a poll: [["),
    ],
)
def test_a_program_that_is_no_reader_is_an_error(command: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)), closing(Program(command, {})) as reader:
        for _ in range(2):  # the pipe may accept the first poll while the program is exiting
            reader.begin(0, "2001-01-01 00:00:00+00", kill=False)
            reader.wait(lambda _pid: ())
