"""inorder tail --jobs: what one reader writes, byte for byte, whatever becomes of one of several."""

import signal
from contextlib import suppress
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pytest
from inorder.connection.database import Connection
from inorder.tail.request import OUTPUTS
from pyarrow import parquet

from conftest import scalar
from ground import run
from tail_runs import Tail, insert
from waiting import PATIENCE, wait_for

pytestmark = pytest.mark.server

RUN = ("events", "--batch-rows", "1k")
ROWS = 16_000


def written(tail: Tail, form: str, jobs: int) -> object:
    """What a run wrote: bytes, or of Arrow the rows, since batches of Arrow end where a part ends."""
    name = f"{form}.{jobs}"
    arguments = [*RUN, "--position", f"p.{name}", "--format", form, "--jobs", str(jobs)]
    if form == "parquet":
        tail(*arguments, "--directory", name, "--target-file-size", "100kB")
        return parquet.read_table(tail.folder / name).sort_by("n").to_pydict()
    tail.appended(*arguments, to=name)
    content = (tail.folder / name).read_bytes()
    return pa.ipc.open_stream(content).read_all().to_pydict() if form == "arrow" else content


def fill(connection: Connection) -> None:
    """Transactions of many sizes, one of more rows than a batch."""
    connection.execute("ALTER TABLE events ADD at timestamptz DEFAULT now(), ADD tags text[] DEFAULT '{a,b}'")
    borders = [1, 2, 30, 500, 2000, 4000, 14_000, ROWS + 1]
    for first, end in pairwise(borders):
        insert(connection, end - first, first)


def has_rows(tail: Tail, count: int) -> bool:
    return (tail.folder / "out").exists() and (tail.folder / "out").read_bytes().count(b"\n") == count


def sessions(connection: Connection) -> int:
    ours = "datname = 'tail' AND application_name = 'inorder' AND pid <> pg_backend_pid()"
    return int(str(scalar(connection, f"SELECT count(*) FROM pg_stat_activity WHERE {ours}")))


@pytest.mark.editions
def test_the_rows_of_one_job_in_each_format(fresh: Connection, tail: Tail) -> None:
    fill(fresh)
    different = [form for form in OUTPUTS if written(tail, form, 3) != written(tail, form, 1)]
    assert different == []


def test_small_batches_are_read_by_one_connection(fresh: Connection, tail: Tail) -> None:
    with tail.started("events", "--position", "p", "--batch-rows", "10", "--jobs", "4", "--follow", to="out"):
        for count in range(1, 5):
            insert(fresh, 5)
            wait_for(partial(has_rows, tail, 5 * count))
            assert sessions(fresh) == 1
        insert(fresh, 100)
        wait_for(partial(has_rows, tail, 120))
        assert sessions(fresh) == 5


def run_of(form: str, jobs: int = 3) -> tuple[str, ...]:
    output = ("--directory", "out", "--target-file-size", "100kB") if form == "parquet" else ()
    return (*RUN, "--position", "p", "--format", form, *output, "--jobs", str(jobs))


def bytes_in(tail: Tail) -> int:
    """Of the output, also of a Parquet file that is not whole yet."""
    out = tail.folder / "out"
    sizes = []
    for path in out.iterdir() if out.is_dir() else [out]:
        with suppress(FileNotFoundError):  # it was renamed
            sizes.append(path.stat().st_size)
    return sum(sizes)


def numbers(connection: Connection, tail: Tail, form: str) -> list[int]:
    """The column n of the output: nothing of it may be half a row or half a file."""
    out = tail.folder / "out"
    if form == "json":
        return tail.rows()
    if form == "csv":
        return [int(line.split(b",")[1]) for line in out.read_bytes().splitlines()[1:]]
    if form == "parquet":
        tables = [parquet.read_table(path) for path in out.glob("*.parquet")]
        assert not list(out.glob("*.partial"))
        return sorted(number for table in tables for number in table.column("n").to_pylist())
    if form == "arrow":
        found: list[int] = pa.ipc.open_stream(out.read_bytes()).read_all().column("n").to_pylist()
        return found
    run(connection, "DROP TABLE IF EXISTS again", "CREATE TABLE again (LIKE events)")
    with connection.cursor().copy("COPY again FROM STDIN (FORMAT binary)") as copy:
        copy.write(out.read_bytes())
    return [int(str(n)) for (n,) in connection.execute("SELECT n FROM again ORDER BY ctid")]


def ended(tail: Tail, form: str, *signals: int, after: int, jobs: int = 3) -> tuple[int, str]:
    """Exit code and error of a run that is sent signals as soon as the output has so many bytes."""
    with tail.started(*run_of(form, jobs), to="ignored" if form == "parquet" else "out") as running:
        wait_for(lambda: bytes_in(tail) > after or running.poll() is not None)
        for number in signals:
            running.send_signal(number)
        assert running.stderr
        return running.wait(PATIENCE), running.stderr.read().decode()


@pytest.mark.parametrize("form", OUTPUTS)
def test_an_error_in_one_part_ends_all(fresh: Connection, tail: Tail, form: str) -> None:
    """Nothing of the batch stays, and the position is where it was; with the cause gone the run is completed."""
    fresh.execute("CREATE TYPE mood AS ENUM ('sad', 'fine')")
    fresh.execute("CREATE TYPE holder AS (m mood)")  # of an enum itself the labels are in the schema of Arrow
    fresh.execute("ALTER TABLE events ADD h holder DEFAULT '(fine)'")
    insert(fresh, 8_000)
    fresh.execute("INSERT INTO events (n, h) VALUES (8001, '(sad)')")
    insert(fresh, 1000, 8_002)
    (label,) = fresh.execute("DELETE FROM pg_enum WHERE enumlabel = 'sad' RETURNING oid, enumtypid, enumsortorder")
    code, said = ended(tail, form, after=2**40)
    assert code == 2 and "invalid internal value for enum" in said
    wait_for(lambda: sessions(fresh) == 0)
    delivered = numbers(fresh, tail, form) if form != "parquet" or list(tail.folder.glob("out/*.parquet")) else []
    assert delivered == list(range(1, len(delivered) + 1)) and len(delivered) < 8_001
    fresh.execute("INSERT INTO pg_enum VALUES (%s, %s, %s, 'sad')", label)
    assert ended(tail, form, after=2**40) == (0, "")
    assert numbers(fresh, tail, form) == list(range(1, 9_002))


def test_an_interrupt_ends_all(fresh: Connection, tail: Tail) -> None:
    """The first one waits for the end of the batch, the second one does not."""
    insert(fresh, ROWS)
    for signals in (1, 2, 2):
        code, said = ended(tail, "json", *[signal.SIGINT] * signals, after=bytes_in(tail) + 40_000)
        assert code in (0, 130) and "Traceback" not in said, said
        wait_for(lambda: sessions(fresh) == 0)
        delivered = tail.rows()
        assert delivered == list(range(1, len(delivered) + 1))
    assert ended(tail, "json", after=2**40) == (0, "")
    assert tail.rows() == list(range(1, ROWS + 1))


@pytest.mark.parametrize("kills", [5, 20])
@pytest.mark.parametrize("form", OUTPUTS)
def test_killed_at_any_moment_each_row_is_there_once(fresh: Connection, tail: Tail, form: str, kills: int) -> None:
    """Runs of one job and of several take turns."""
    insert(fresh, ROWS)
    codes = [ended(tail, form, signal.SIGKILL, after=number * 280_000 // kills, jobs=1 + number % 2 * 2)[0]
             for number in range(kills)]  # fmt: skip
    assert set(codes) <= {0, -signal.SIGKILL} and codes.count(-signal.SIGKILL) > kills // 2
    assert ended(tail, form, after=2**40) == (0, "")
    assert numbers(fresh, tail, form) == list(range(1, ROWS + 1))


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_who_changes_the_table_meanwhile_waits_and_is_not_waited_for(fresh: Connection, tail: Tail, form: str) -> None:
    """He waits for those that read, and a further reader for him: the jobs let him pass, and begin again."""
    insert(fresh, ROWS)
    changes = ("ADD w int", "DROP w") if form == "csv" else ("ALTER v TYPE bigint", "ALTER v TYPE int")
    fresh.execute("ALTER TABLE events ADD v int")
    with tail.started(*run_of(form), to="out") as running:
        for number in range(16):
            fresh.execute(f"ALTER TABLE events {changes[number % 2]}".encode())
        assert running.stderr
        code, said = running.wait(PATIENCE), running.stderr.read().decode()
    assert (code, said) == (0, "") or "or of other columns" in said
    if code == 0:
        assert numbers(fresh, tail, form) == list(range(1, ROWS + 1))


def test_a_reader_without_the_right(fresh: Connection, tail: Tail) -> None:
    insert(fresh, 2000)
    fresh.execute("CREATE ROLE no_reader LOGIN")
    try:
        tail.environment["PGUSER"] = "no_reader"
        said = [tail(*RUN, "--position", "p", "--jobs", jobs, code=2) for jobs in ("1", "3")]
    finally:
        fresh.execute("DROP ROLE no_reader")
    assert said[0] == said[1] and "permission denied for table public.events" in said[0]


def test_what_it_refuses(fresh: Connection, tail: Tail) -> None:
    for count in ("0", "65"):
        assert "--jobs must be a number from 1 to 64" in tail(*RUN, "--position", "p", "--jobs", count, code=2)
    fresh.execute("ALTER TABLE events ADD seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE")
    assert "keep no order" in tail(*RUN, "--position", "p", "--jobs", "2", "--order-by", "seq", code=2)
    insert(fresh, 2001)
    tail(*RUN, "--position", "p", "--order-by", "seq", "--start", "beginning")
    insert(fresh, 3000)
    refused = tail(*RUN, "--position", "p", "--jobs", "2", "--exec", "cat > /dev/null", code=2)
    assert "a batch in the order of a column cannot be split" in refused
