"""inorder tail into a file that is moved, copied, rotated or restored writes each row once, or reports an error."""

import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from inorder.connection.database import Connection

import preloaded
from conftest import LONG_RUN
from tail_runs import Tail, insert, numbers
from waiting import PATIENCE, wait_for

pytestmark = pytest.mark.server

EVENTS = ("events", "--position", "p")
LARGE = (*EVENTS, "--batch-rows", "5k")
HALF = 100_000  # number of bytes: about half of a batch of 5,000 rows


def half_a_batch(tail: Tail, *arguments: str, to: str = "out") -> None:
    with tail.started(*arguments, to=to, held_after=[HALF]) as running:
        running.kill()
        running.wait()
    assert tail.state()["pending"] is not None


def refused(tail: Tail, *arguments: str, to: str | Path = "out") -> str:
    path = tail.folder / to
    before = path.read_bytes() if path.exists() else b""
    with tail.started(*arguments, to=str(to)) as running:
        assert running.wait(PATIENCE) == 2
        assert running.stderr
        stderr = running.stderr.read().decode()
    assert path.read_bytes() == before and "Traceback" not in stderr
    return stderr


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.mark.parametrize("copied", [shutil.copy, shutil.copy2, shutil.move])
def test_a_file_moved_to_another_file_system_is_recognized(
    tail: Tail, fresh: Connection, elsewhere: Path, copied: object
) -> None:
    assert callable(copied)
    insert(fresh, 6_000)
    tail.appended(*LARGE)
    insert(fresh, 6_000, 6_001)
    half_a_batch(tail, *LARGE)
    copied(tail.folder / "out", elsewhere / "moved")
    tail.appended(*LARGE, to=str(elsewhere / "moved"))
    assert numbers((elsewhere / "moved").read_text()) == list(range(1, 12_001))


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[int]:
    """Mount a file system from a file, and yield its device number.

    The loop device stays in use, so that the next file system gets a different device number.
    """
    device = subprocess.run(["losetup", "--show", "-f", image], check=False, capture_output=True, text=True)
    if device.returncode:
        pytest.skip("no loop device is available")
    try:
        if subprocess.run(["mount", device.stdout.strip(), place], check=False, capture_output=True).returncode:
            pytest.skip("mount is not allowed")
        try:
            yield place.stat().st_dev
        finally:
            subprocess.run(["umount", place], check=True)
    finally:
        subprocess.run(["losetup", "-d", device.stdout.strip()], check=True)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mkfs.ext4"), reason="only root can mount")
def test_a_batch_is_completed_after_its_file_system_is_mounted_again(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 6_000)
    image, place = tail.folder / "image", tail.folder / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(64 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    with mounted(image, place) as first:
        half_a_batch(tail, *LARGE, to="mounted/out")
    (tail.folder / "spare").write_bytes(bytes(2**20))
    spare = subprocess.run(
        ["losetup", "--show", "-f", tail.folder / "spare"], check=True, capture_output=True, text=True
    )
    try:
        with mounted(image, place) as second:
            tail.appended(*LARGE, to="mounted/out")
            rows = tail.rows("mounted/out")
    finally:
        subprocess.run(["losetup", "-d", spare.stdout.strip()], check=True)
    assert first != second and rows == list(range(1, 6_001))


def test_each_rotated_file_has_its_own_header(tail: Tail, fresh: Connection) -> None:
    csv = (*EVENTS, "--format", "csv")
    for turn in range(4):
        insert(fresh, 10, 10 * turn + 1)
        tail.appended(*csv)
        (tail.folder / "out").rename(tail.folder / f"out.{turn}")
        if turn % 2:
            (tail.folder / "out").touch()
    for turn in range(4):
        lines = (tail.folder / f"out.{turn}").read_text().splitlines()
        assert lines[0] == "id,n"
        assert [int(line.partition(",")[2]) for line in lines[1:]] == list(range(10 * turn + 1, 10 * turn + 11))


def test_rotation_during_a_run_loses_no_row(tail: Tail, fresh: Connection) -> None:
    chance = random.Random(3)
    first = 1
    turns = range(6 if LONG_RUN else 2)
    for turn in turns:
        with tail.started(*EVENTS, "--follow", "--interval", "10ms", "--batch-rows", "50", to="out") as running:
            for _ in range(5):
                insert(fresh, 100, first)
                first += 100
                wait_for(lambda: (tail.folder / "out").stat().st_size)
                time.sleep(chance.random() / 50)
            (tail.folder / "out").rename(tail.folder / f"out.{turn}")
            (tail.folder / "out").touch()
            insert(fresh, 100, first)
            first += 100
            running.send_signal((signal.SIGHUP, signal.SIGTERM)[turn % 2])
            assert running.wait(PATIENCE) == 0
    tail.appended(*EVENTS)
    rows = [row for turn in turns for row in tail.rows(f"out.{turn}")] + tail.rows()
    assert rows == list(range(1, first))


@pytest.mark.parametrize("create", [True, False])
def test_rotation_of_half_a_batch_is_refused(tail: Tail, fresh: Connection, create: bool) -> None:
    """The new file would have the whole batch, and the previous file half of it.

    The HINT explains how to complete the batch.
    """
    insert(fresh, 6_000)
    half_a_batch(tail, *LARGE)
    (tail.folder / "out").rename(tail.folder / "out.1")
    if create:
        (tail.folder / "out").touch()
    message = refused(tail, *LARGE)
    assert (
        "it is new, and the last batch is unfinished in the previous file\nHINT:  Append to the previous file"
        in message
    )
    tail.appended(*LARGE, to="out.1")
    insert(fresh, 10, 6_001)
    tail.appended(*LARGE)
    assert tail.rows("out.1") == list(range(1, 6_001)) and tail.rows() == list(range(6_001, 6_011))


def test_half_a_batch_can_be_cut_off_by_hand(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 6_000)
    half_a_batch(tail, *LARGE)
    (tail.folder / "out").rename(tail.folder / "out.1")
    hint = refused(tail, *LARGE).partition("cut the previous file to its first ")[2]
    os.truncate(tail.folder / "out.1", int(hint.split()[0]))
    tail.appended(*LARGE, "--accept-output")
    assert tail.rows("out.1") + tail.rows() == list(range(1, 6_001))


def test_copytruncate_is_noticed(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 10)
    out = tail.folder / "out"
    with tail.started(*EVENTS, "--follow", "--interval", "10ms", to="out") as running:
        wait_for(lambda: out.stat().st_size and tail.state()["pending"] is None)
        shutil.copy(out, tail.folder / "out.1")
        os.truncate(out, 0)
        assert running.wait(PATIENCE) == 1
        assert running.stderr and b"another program changed the file" in running.stderr.read()
    error = refused(tail, *EVENTS)
    if has_attributes(tail.folder):
        assert "it was emptied in place, as by logrotate's copytruncate" in error
    insert(fresh, 10, 11)
    tail.appended(*EVENTS, "--accept-output")
    tail.appended(*EVENTS)
    assert tail.rows("out.1") + tail.rows() == list(range(1, 21))


def unmarked(tail: Tail, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the messages of a run.

    The run writes into a file of another owner, opened the way systemd does for "append:".
    """
    environment = tail.environment | {preloaded.UNMARKED: "yes"}
    with (tail.folder / "out").open("ab") as out:
        running = preloaded.Run(["tail", *arguments], tail.folder, environment, out, subprocess.PIPE)
        assert running.stderr
        with running.stderr as errors:
            messages = errors.read().decode()
        return running.wait(PATIENCE), messages


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_copytruncate_of_a_file_without_attributes_is_noticed(
    tail: Tail, fresh: Connection, follow: tuple[str, ...]
) -> None:
    """The file is identified by its inode. A message reports this once."""
    insert(fresh, 10)
    code, messages = unmarked(tail, *EVENTS)
    assert (code, tail.rows()) == (0, list(range(1, 11)))
    assert "the attribute user.inorder.output cannot be set: Permission denied\nDETAIL:  " in messages
    insert(fresh, 10, 11)
    assert unmarked(tail, *EVENTS) == (0, "")
    shutil.copy(tail.folder / "out", tail.folder / "out.1")
    insert(fresh, 10, 21)
    os.truncate(tail.folder / "out", 0)
    code, messages = unmarked(tail, *EVENTS, *follow)
    assert (code, tail.rows()) == (2, [])
    assert "it was emptied in place, as by logrotate's copytruncate" in messages
    assert unmarked(tail, *EVENTS, "--accept-output")[0] == 0
    assert tail.rows("out.1") + tail.rows() == list(range(1, 31))


def test_a_new_file_with_the_inode_of_the_former_is_accepted(tail: Tail, fresh: Connection) -> None:
    """The new file must not be mistaken for the previous file after truncation.

    This requires a file system that can distinguish two files with the same inode number.
    """
    insert(fresh, 10)
    unmarked(tail, *EVENTS)
    (tail.folder / "out").unlink()
    (tail.folder / "out").touch()
    insert(fresh, 10, 11)
    assert unmarked(tail, *EVENTS)[0] == 0
    assert tail.rows() == list(range(11, 21))


def test_copytruncate_under_a_feed_is_noticed(tail: Tail, fresh: Connection) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 10)
    out = tail.folder / "out"
    with tail.started("--feed", "f", "--follow", "--interval", "10ms", to="out") as running:
        wait_for(lambda: out.stat().st_size)
        os.truncate(out, 0)
        assert running.wait(PATIENCE) == 1
        assert running.stderr and b"another program truncated it: it has 0 bytes" in running.stderr.read()


@pytest.mark.parametrize("feed", [False, True])
def test_rows_with_other_columns_are_not_written_under_the_same_header(
    tail: Tail, fresh: Connection, feed: bool
) -> None:
    """Values below the previous header would appear to belong to other columns.

    The number of columns may be the same.
    """
    fresh.execute("SELECT feed_create('f', 'events')")
    csv = (*(("--feed", "f") if feed else EVENTS), "--format", "csv")
    changes = (
        "ALTER TABLE events ADD COLUMN more text", "ALTER TABLE events RENAME COLUMN more TO other",
        "ALTER TABLE events DROP COLUMN other",
    )  # fmt: skip
    for change in changes:
        insert(fresh, 3)
        tail.appended(*csv)
        tail.appended(*csv)
        fresh.execute(change.encode())
        insert(fresh, 3)
        assert "or another header\nHINT:  Start a new file." in refused(tail, *csv)
        (tail.folder / "out").rename(tail.folder / "before")
    tail.appended(*csv)
    assert (tail.folder / "out").read_text().startswith("id,n\n")


@pytest.mark.parametrize("feed", [False, True])
def test_a_file_with_rows_in_another_format_is_refused(tail: Tail, fresh: Connection, feed: bool) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    source = ("--feed", "f") if feed else EVENTS
    forms = ("json", "csv")
    for form, other in zip(forms, reversed(forms), strict=True):
        insert(fresh, 3)
        tail.appended(*source, "--format", form, to=form)
        insert(fresh, 3, 4)
        assert "its rows have another format" in refused(tail, *source, "--format", other, to=form)
        tail.appended(*source, "--format", form, to=form)
        assert (tail.folder / form).read_text().count("\n") == 6 + (form == "csv")


def has_attributes(folder: Path) -> bool:
    """Return True if the file system supports user attributes."""
    with suppress(OSError), tempfile.NamedTemporaryFile(dir=folder) as file:
        os.setxattr(file.name, "user.inorder.test", b"1")
        return True
    return False


@pytest.mark.parametrize("mode", ["ab", "r+b"])
def test_copytruncate_within_a_batch_is_noticed(tail: Tail, fresh: Connection, mode: str) -> None:
    insert(fresh, 10)
    tail.appended(*LARGE)
    insert(fresh, 6_000, 11)
    with tail.started(*LARGE, to="out", mode=mode, held_after=[HALF]) as running:
        os.truncate(tail.folder / "out", 0)
        running.send_signal(signal.SIGCONT)
        assert running.stderr
        assert b"another program changed the file" in running.stderr.read()
        assert running.wait(PATIENCE) == 1
    assert tail.state()["pending"] is not None
    refused(tail, *LARGE)


def test_changes_of_the_file_by_other_programs_are_refused(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 1000)
    tail.appended(*EVENTS)
    content = (tail.folder / "out").read_bytes()
    (tail.folder / "other").write_bytes(b"x" * (len(content) - 1) + b"\n")
    assert f"before byte {len(content):,} is not what was delivered" in refused(tail, *EVENTS, to="other")
    (tail.folder / "more").write_bytes(content + b"more\n")
    assert f"after byte {len(content):,}, the end of the delivered rows, is not a batch" in refused(
        tail, *EVENTS, to="more"
    )
    (tail.folder / "less").write_bytes(content[:-100])
    assert f"it has {len(content) - 100:,} bytes, but {len(content):,} were delivered" in refused(
        tail, *EVENTS, to="less"
    )
    os.link(tail.folder / "out", tail.folder / "link")
    insert(fresh, 5, 1001)
    tail.appended(*EVENTS, to="link")
    assert tail.rows() == list(range(1, 1006))


def test_rows_after_an_older_position_can_be_cut_off(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 1000)
    tail.appended(*EVENTS)
    shutil.copy(tail.folder / "p", tail.folder / "yesterday")
    insert(fresh, 1000, 1001)
    tail.appended(*EVENTS)
    shutil.copy(tail.folder / "yesterday", tail.folder / "p")
    error = refused(tail, *EVENTS)
    os.truncate(tail.folder / "out", int(error.partition("it has more than ")[2].split()[0]))
    tail.appended(*EVENTS)
    assert tail.rows() == list(range(1, 2001))


def test_the_first_batch_is_not_written_to_a_file_with_other_content(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 6_000)
    half_a_batch(tail, *LARGE)
    notes = b"of another\n" * 10_000
    (tail.folder / "notes").write_bytes(notes)
    assert "is not a batch" in refused(tail, *EVENTS, to="notes")
    if has_attributes(tail.folder):
        tail.appended("events", "--position", "q", to="export")
        assert "it is another file" in refused(tail, *EVENTS, to="export")
    tail.appended(*EVENTS)
    assert tail.rows() == list(range(1, 6_001))


def test_half_a_batch_in_a_file_excludes_other_sinks(tail: Tail, fresh: Connection) -> None:
    """Another sink would get the whole batch, although the file already has half of it.

    Between whole batches, sinks may alternate.
    """
    insert(fresh, 6_000)
    half_a_batch(tail, *LARGE)
    assert "the last batch is unfinished in a file, and standard output is not that file" in tail(*EVENTS, code=2)
    assert "the last batch is unfinished in a file" in tail(*EVENTS, "--exec", "cat", code=2)
    tail.appended(*LARGE)
    insert(fresh, 10, 6_001)
    assert numbers(tail(*EVENTS)) == list(range(6_001, 6_011))
    insert(fresh, 10, 6_011)
    tail.appended(*LARGE)
    assert tail.rows() == [*range(1, 6_001), *range(6_011, 6_021)]


@pytest.mark.parametrize("signals", [1, 2])
def test_an_interrupted_run_leaves_whole_batches(tail: Tail, fresh: Connection, signals: int) -> None:
    insert(fresh, 10_000)
    with tail.started(*LARGE, to="out", held_after=[HALF, 2 * HALF][:signals]) as running:
        for _ in range(signals):
            wait_for(running.is_stopped)
            running.send_signal(signal.SIGINT)
            running.send_signal(signal.SIGCONT)
        assert running.wait(PATIENCE) == 130
    assert len(tail.rows()) == (5_000 if signals == 1 else 0)
    tail.appended(*EVENTS)
    assert tail.rows() == list(range(1, 10_001))


@pytest.mark.parametrize("truncating", [True, False])
def test_a_file_opened_without_append_is_not_checked(tail: Tail, fresh: Connection, truncating: bool) -> None:
    insert(fresh, 6_000)
    half_a_batch(tail, *LARGE)
    mode = "wb" if truncating else "r+b"
    with tail.started(*LARGE, to="out", mode=mode) as running:
        assert running.wait(PATIENCE) == 0
    assert tail.rows()[-1] == 6_000
    assert tail.rows() == list(range(tail.rows()[0], 6_001))
    assert truncating or tail.rows()[0] == 1
    insert(fresh, 1, 7)
    with tail.started(*LARGE, to="out", mode=mode) as running:
        assert running.wait(PATIENCE) == 0
    assert tail.rows()[-1] == 7 and truncating == (tail.rows() == [7])


def test_a_file_is_not_written_over(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 1)
    out = tail.folder / "out"
    out.write_bytes(b"something\n")
    with tail.started(*EVENTS, to="out", mode="r+b") as running:
        assert running.wait(PATIENCE) == 2
        assert (
            running.stderr
            and b"standard output would be overwritten\nHINT:  Append to the file, with >>" in running.stderr.read()
        )
    out.write_bytes(b"some")
    assert f"{tail.folder / 'out'}: standard output ends within a line" in refused(tail, *EVENTS)
    out.write_bytes(b'{"some": 1}\n')
    tail.appended(*EVENTS)
    assert out.read_bytes().startswith(b'{"some": 1}\n{"id":')


def test_a_full_device_is_named(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 1)
    with tail.started(*EVENTS, to="/dev/full", mode="r+b") as running:
        assert running.wait(PATIENCE) == 1 and running.stderr
        assert running.stderr.read() == b"inorder: /dev/full: cannot write: No space left on device\n"


def test_messages_are_not_written_among_rows(tail: Tail, fresh: Connection) -> None:
    """With 2>&1, messages would be written among the rows of the file."""
    insert(fresh, 5)
    tail.appended(*EVENTS)
    with (tail.folder / "out").open("ab") as stream:
        running = preloaded.Run(["tail", *EVENTS], tail.folder, tail.environment, stream, stream)
        assert running.wait(PATIENCE) == 2
    lines = (tail.folder / "out").read_text().splitlines(keepends=True)
    assert lines[5] == f"inorder: {tail.folder / 'out'}: standard error is redirected to this file, too\n"
    assert lines[6].startswith("HINT:  Redirect")
    (tail.folder / "out").write_text("".join(lines[:5]))
    tail.appended(*EVENTS)
    assert tail.rows() == [1, 2, 3, 4, 5]


def test_a_run_ends_if_its_file_is_removed(tail: Tail, fresh: Connection) -> None:
    """New rows would go to an unlinked file. The run ends, and the next one writes the rows to a new file."""
    insert(fresh, 5)
    out = tail.folder / "out"
    with tail.started(*EVENTS, "--follow", "--interval", "10ms", to="out") as running:
        wait_for(lambda: out.stat().st_size and tail.state()["pending"] is None)
        out.unlink()
        assert running.wait(PATIENCE) == 1
        assert running.stderr and b"was removed" in running.stderr.read()
    insert(fresh, 5, 6)
    tail.appended(*EVENTS)
    assert tail.rows() == [6, 7, 8, 9, 10]


def test_without_disk_space_a_file_ends_at_the_saved_position(tail: Tail, fresh: Connection) -> None:
    """If the disk fills up within a batch or header, the file has no partial row, and no row is repeated later."""
    insert(fresh, 4_000)
    for form in ("json", "csv"):
        arguments = ("events", "--format", form, "--batch-rows", "1500", "--position")
        tail.appended(*arguments, "whole", to=f"{form} whole")
        content = (tail.folder / f"{form} whole").read_bytes()
        # A position takes 2,000 bytes, and the first block of rows more than 3,000.
        rooms = (3_000, len(content) // 2, len(content) - 1)
        for room in rooms if LONG_RUN or form == "csv" else rooms[:1]:
            name = f"{form} {room}"
            out = tail.folder / name
            assert "cannot write: File too large" in tail.without_room(room, *arguments, f"{name} p", to=name)
            output = tail.state(f"{name} p")["output"]
            assert isinstance(output, dict) and out.stat().st_size == output["size"], name
            tail.appended(*arguments, f"{name} p", to=name)
            assert out.read_bytes() == content, name
        (tail.folder / "whole").unlink()


def test_without_disk_space_for_the_position_a_file_is_unchanged(tail: Tail, fresh: Connection) -> None:
    """If the position of a batch cannot be saved, the batch is removed from the end of the file again."""
    insert(fresh, 3)
    tail.appended(*EVENTS)
    before = (tail.folder / "out").read_bytes()
    insert(fresh, 3, 4)
    with tail.started(*EVENTS, to="out", held_after=[1]) as running:
        assert (tail.folder / "out").read_bytes() != before
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (100, 100))  # the position takes more than 100 bytes
        running.send_signal(signal.SIGCONT)
        assert running.wait(PATIENCE) == 1, running.stderr and running.stderr.read()
    assert (tail.folder / "out").read_bytes() == before


def test_accepted_output_stays_if_no_row_can_be_written(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 3)
    tail.appended(*EVENTS)
    with (tail.folder / "out").open("a") as out:
        out.write('{"n": 0}\n')
    insert(fresh, 3, 4)
    room = (tail.folder / "p").stat().st_size // 2  # enough for the rows, but not for the position
    assert "cannot write p, which is unchanged" in tail.without_room(room, *EVENTS, "--accept-output", to="out")
    assert tail.rows() == [1, 2, 3, 0]


def test_without_disk_space_a_feed_leaves_whole_batches(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 4_000)
    fresh.execute("SELECT feed_create('f', 'events')")
    tail.without_room(130_000, "--batch-rows", "1500", "--feed", "f", to="out")
    assert tail.rows() == list(range(1, 1_501))


@pytest.mark.parametrize("source", [("events", "--position", "p"), ("--feed", "f")])
@pytest.mark.parametrize("form", ["binary", "arrow"])
def test_formats_with_an_end_mark_are_not_appended(
    tail: Tail, fresh: Connection, form: str, source: tuple[str, ...]
) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 3)
    with tail.started(*source, "--format", form, to="out") as running:
        assert running.wait(PATIENCE) == 2
        assert running.stderr and b"HINT:  For a file per batch: --exec 'cat > " in running.stderr.read()
    assert (tail.folder / "out").read_bytes() == b""
    tail(*source, "--batch-rows", "2", "--format", form, "--exec", f"cat > $INORDER_ROWS.{form}")
    assert [path.name for path in sorted(tail.folder.glob(f"*.{form}"))] == [f"1.{form}", f"2.{form}"]


def is_longer(path: Path, than: int) -> bool:
    return path.stat().st_size > than


def test_a_csv_file_has_each_row_once_after_a_kill_at_any_moment(tail: Tail, fresh: Connection) -> None:
    """A kill before the first rows are complete must not cause a second header."""
    csv, out = (*EVENTS, "--format", "csv"), tail.folder / "out"
    for first in range(1, 4000, 500):
        insert(fresh, 500, first)
    for kills in range(5):
        with tail.started(*csv, "--follow", "--batch-rows", "50", to="out") as running:
            wait_for(partial(is_longer, out, kills * 20_000))
            running.kill()
            running.wait()
    tail.appended(*csv)
    header, *lines = out.read_text().splitlines()
    assert header == "id,n" and [int(line.split(",")[1]) for line in lines] == list(range(1, 4001))
