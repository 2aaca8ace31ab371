"""The position file of inorder tail is complete or missing, and is checked before use."""

import errno
import fcntl
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from inorder import files
from inorder.connection.database import Connection
from inorder.errors import InorderError, InputError
from inorder.tail import position, sources
from inorder.tail.position import PositionFile
from inorder.tail.request import Request
from inorder.tail.source import Batch
from inorder.tail.sources import TableSource
from inorder.tail.state import NEW, Mark, State, decode, encode

from conftest import LONG_RUN
from tail_runs import Tail, insert, numbers
from waiting import PATIENCE
from world.sql import value

EVENTS = ("events", "--position", "p")
READ = Request(dsn="", table="events", position=None, feed=None, batch_rows=10)
STATE: dict[str, Any] = {
    "format": 1, "database": "tail", "table": "public.events", "position": {"transactions": "{[0,7)}"}, "pending": None
}  # fmt: skip
BATCH = {"transactions": "{[7,9)}"}
AFTER = {"transactions": "{[0,9)}"}
ORDER = {"column_name": "seq", "attnum": 2}
MARK = {"size": 5, "last": "0" * 64, "id": None}
OPEN = os.open


def changed(**parts: object) -> bytes:
    return json.dumps(STATE | parts).encode()


def position_of(**parts: object) -> bytes:
    return changed(position=STATE["position"] | parts)


def pending(**parts: object) -> bytes:
    """Return a valid file with an unfinished batch, with some fields replaced."""
    return changed(pending={"batch": BATCH, "after": AFTER, "start": None} | parts)


def test_valid_position_files_are_accepted() -> None:
    member = {"relation": 1, "name": "public.events", "system": "1", "attached": [1, 2]}
    for content in (
        changed(), pending(), changed(output=MARK), changed(output=MARK | {"id": "x"}),
        pending(batch=BATCH | {"resumed": 5, "resumed_after": ["a"], "cut": 8, "cut_after": ["b", "c"]}),
        position_of(ordering=ORDER), position_of(ordering=ORDER | {"frozen": "{[7,9)}", "next_value": 3, "up_to": 5}),
        position_of(partial=7, last_key=["k"], members=[member], origin="1/1", transactions="{[0,5),[6,7)}"),
        json.dumps(json.loads(pending(start="00ff")) | {"output": MARK}).encode(),
    ):  # fmt: skip
        assert isinstance(decode(content), State)


UNREADABLE = [
    b"{", b"[]", b"7", b"null", b"\0\xff", b"\n", changed()[:-1], changed() + b"{}", b'"' + b"\\u0000" * 9 + b'"',
    changed(database=None), changed(table=["public.events"]), changed(position=[]), changed(position=None),
    changed(pending=[]), changed(pending={}), changed(pending={"batch": BATCH}), changed(more=1), changed(new=True),
    position_of(transactions=None), position_of(transactions=7), position_of(partial=7), position_of(last_key=7),
    position_of(partial=7, last_key=[]), position_of(partial=7, last_key="k"), position_of(partial=7, last_key=[None]),
    position_of(partial=7, last_key=[["k"]]),
    pending(after=None),
    pending(batch=BATCH | {"cut": 8}), pending(start="00ff"), pending(start=5), pending(more=5),
    changed(output={}), changed(output=[]), changed(output=MARK | {"size": -1}),
    changed(output=MARK | {"size": 1.5}),
    changed(output=MARK | {"last": "0"}), changed(output=MARK | {"last": None}), changed(output=MARK | {"id": 5}),
    changed(output={"device": 1, "inode": 2, "offset": 3}),
    changed(table="\ud800"), changed().replace(b"null", b"NaN"), changed().replace(b"null", b"Infinity"),
    changed().replace(b'"format": 1', b'"format": 1, "format": 1'),
    b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, changed().replace(b"null", b"[" * 10_000),
    changed().replace(b"null", b"9" * 10_000),
]  # fmt: skip


def test_damaged_position_files_are_refused() -> None:
    for content in UNREADABLE:
        with pytest.raises(ValueError, match=r"^(it is damaged, or not a position file: |Exceeds the limit)"):
            assert decode(content) is None, content


def test_a_position_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="its format is 2, and this version of inorder reads 1"):
        decode(changed(format=2, new=1))
    with pytest.raises(ValueError, match="its format is 'x', and this version of inorder reads 1"):
        decode(changed(format="x"))


def test_a_position_is_saved_completely_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = decode(changed())
    for step in ("fsync", "fchmod"):
        path = tmp_path / step
        with PositionFile(path) as file:
            assert file.read(decode) is None
            file.save(encode(state))
            before = path.read_bytes()
            with monkeypatch.context() as patch:
                patch.setattr(os, step, full)
                with pytest.raises(InorderError, match="which is unchanged: No space left on device"):
                    file.save(changed(table="other"))
            assert path.read_bytes() == before
            file.save(changed(table="another"))
        assert decode(path.read_bytes()).table == "another"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fchmod", "fsync"]


@pytest.mark.parametrize("saved_before", [False, True])
def test_a_save_whose_folder_cannot_be_flushed_is_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved_before: bool
) -> None:
    """The position on disk decides where an output file is truncated, so the file must stay, and stay locked."""
    path = tmp_path / "p"
    with PositionFile(path) as file:
        assert file.read(decode) is None and file.kept(decode) is None
        if saved_before:
            file.save(changed())
        monkeypatch.setattr(position, "sync_folder", full)
        with pytest.raises(InorderError, match=r"(?s)cannot flush the folder .*: No space left.* new position"):
            file.save(changed(table="other"))
        assert os.path.samestat(os.fstat(file.descriptor), path.stat())
    saved_state = file.kept(decode)
    assert saved_state and saved_state.table == "other"


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def without_nameless_files(path: str | Path, flags: int, *mode: int) -> int:
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        raise OSError(errno.EOPNOTSUPP, "none")
    return OPEN(path, flags, *mode)


def test_a_new_file_is_complete_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for opened in (OPEN, without_nameless_files):
        monkeypatch.setattr(os, "open", opened)
        with PositionFile(tmp_path / "p") as file:
            assert (tmp_path / "p").read_bytes() == NEW and file.read(decode) is None
            assert [path.name for path in tmp_path.iterdir()] == ["p"]
        assert list(tmp_path.iterdir()) == []
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(InorderError, match=r"cannot open .*p: No space left on device") as caught:
                PositionFile(tmp_path / "p")
            assert caught.value.exit_code == 1
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_replaced_before_its_lock_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    """Without this check, this run would lock an unlinked file, and the next run would lock the new file."""
    path, newer, lock = tmp_path / "p", tmp_path / "newer", files.lock_file
    for each in (path, newer):
        each.write_bytes(NEW)

    def lock_late(descriptor: int, name: Path) -> None:
        if newer.exists():
            newer.replace(path)
            if not is_replaced:
                path.unlink()
        lock(descriptor, name)

    monkeypatch.setattr(position, "lock_file", lock_late)
    with PositionFile(path) as file:
        assert os.path.samestat(os.fstat(file.descriptor), path.stat())


@pytest.mark.parametrize("nameless_files", [True, False])
def test_no_file_of_another_name_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless_files: bool
) -> None:
    """A file with a similar name, such as p.partial, may be the position of another reader."""
    if not nameless_files:
        monkeypatch.setattr(os, "open", without_nameless_files)
    neighbours = {tmp_path / name for name in ("p.partial", f"p.{os.getpid()}.partial", "p.tmp", "p~", ".p")}
    for other in neighbours:
        other.write_text("another reader's")
    with PositionFile(tmp_path / "p") as file:
        file.save(b"1")
        file.save(b"2")
        assert (tmp_path / "p").read_bytes() == b"2"
    assert {*tmp_path.iterdir()} == neighbours | {tmp_path / "p"}
    assert {other.read_text() for other in neighbours} == {"another reader's"}


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(InorderError, match=rf"cannot lock .*p: {os.strerror(number)}\nHINT:  .*local_lock") as caught:
        PositionFile(tmp_path / "p")
    assert caught.value.exit_code == 1


def test_the_file_of_a_run_that_read_nothing_has_no_state(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(NEW)
    with PositionFile(tmp_path / "p") as file:
        assert file.read(decode) is None


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position, "MOST_BYTES", 1000)
    (tmp_path / "p").write_bytes(b" " * 1001)
    with PositionFile(tmp_path / "p") as file, pytest.raises(InputError, match="it has 1,001 bytes, and a position"):
        file.read(decode)


DAMAGED = "cannot use p: it is damaged, or not a position file: "
BEYOND = ("{(,)}", "{[0,)}", "{[-1,5)}")
NO_SETS = ("x", "{[5,4)}", "{[0,5)", "{[0,99999999999999999999)}", "{[٣,٤)}")
NOT_WRITTEN_SO = ("{[3,3)}", "{[5,6),[0,5)}", "{[0,5),[5,6)}", "{[0,5],[7,8)}", "{[0,5), [7,8)}", "{empty}")
NO_POSITIONS = [
    (b"", "cannot use p: it is empty, and the position of the last run is lost\nHINT:  Restore a copy."),
    (b"{", "cannot use p: it is damaged, or not a position file: JSONDecodeError"),
    (b"[" * 100_000, "cannot use p: it is damaged, or not a position file: it is nested too deeply"),
    (changed(table="\ud800"), "cannot use p: it is damaged, or not a position file: UnicodeEncodeError"),
    *((position_of(transactions=text), "the position holds transactions {") for text in BEYOND),
    *((position_of(transactions=text), DAMAGED) for text in NO_SETS),
    *((position_of(transactions=text), f"{DAMAGED}invalid position") for text in NOT_WRITTEN_SO),
    *((position_of(partial=n, last_key=["k"]), "the position is inside transaction") for n in (-1, 2**48)),
    *((position_of(partial=value, last_key=["k"]), DAMAGED) for value in ("7", True, 10**400)),
    (position_of(last_key=["k"]), "invalid position: ordering is"),
    (position_of(origin=5), f"{DAMAGED}invalid position"),
    (position_of(ordering=[1]), DAMAGED),
    (position_of(ordering=ORDER | {"frozen": "{(,)}"}), "invalid position: ordering is"),
    (position_of(ordering=ORDER | {"attnum": "2"}), f"{DAMAGED}invalid position"),
    (position_of(partial=7, last_key=["k"], ordering=ORDER), "invalid position: ordering is"),
    (position_of(members=[7]), DAMAGED),
    (position_of(members={}), f"{DAMAGED}expected JSON array"),
    (changed(format=2), "cannot use p: its format is 2, and this version of inorder reads 1"),
    (changed(table="public.other"), 'p is the position in public.other in the database "tail", not in public.'),
    (changed(database="shop"), 'p is the position in public.events in the database "shop", not in public.'),
    (
        changed(database="shop"),
        "HINT:  Give another --position. If the database was renamed, or restored under another "
        'name, change "database" in p.',
    ),
    (changed(table="\0"), 'p is the position in \\x00 in the database "tail", not in public.events'),
    (
        position_of(more=7),
        "a public.feed_position has no member more\nDETAIL:  The object has format null, and this version",
    ),
    (position_of(members=[{"name": 5}]), "invalid position"),
    (position_of(members=[{"relation": "x"}]), 'invalid input syntax for type oid: "x"'),
    (position_of(origin="\0"), "unsupported Unicode escape sequence"),
    (pending(after={"transactions": "{[0,8)}"}), "not a position file: its batch does not end at the next position"),
    (pending(batch={"transactions": "{[5,9)}"}), "this batch does not follow this position"),
    (pending(after=AFTER | {"origin": "1/1"}), "not a position file: its batch does not end at the next position"),
]


@pytest.mark.server
def test_a_file_that_is_no_position_file_is_left_unchanged(tail: Tail, fresh: Connection) -> None:
    for content, message in NO_POSITIONS[:: 1 if LONG_RUN else 3]:
        (tail.folder / "p").write_bytes(content)
        assert message in tail(*EVENTS, code=2)
        assert [(path.name, path.read_bytes()) for path in tail.folder.iterdir()] == [("p", content)]


@pytest.mark.parametrize("has_nameless", [True, False])
def test_no_link_that_another_user_planted_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_nameless: bool
) -> None:
    """The link has a guessed name in the same folder, or the name of the file itself."""
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: "guessed")
    target = tmp_path / "p"
    planted, elsewhere = tmp_path / "p.guessed.partial", tmp_path / "elsewhere"
    with PositionFile(target) as file:
        if not has_nameless:
            monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)  # as if the system had no O_TMPFILE
        writes: list[Callable[[], None]] = [
            partial(file.save, b"content"), partial(files.write_whole, target, "text"),
            partial(files.require_writable, target),
        ]  # fmt: skip
        for write in writes:
            planted.unlink(missing_ok=True)
            planted.symlink_to(elsewhere)
            with pytest.raises(InorderError, match="File exists"):
                write()
            assert not elsewhere.exists() and not target.is_symlink()
    (tmp_path / "later").symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        position.locked(tmp_path / "later")


@pytest.mark.server
def test_the_position_file_stays_a_link_and_keeps_its_mode(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 2)
    (tail.folder / "p").symlink_to("real")
    assert numbers(tail(*EVENTS)) == [1, 2]
    real = tail.folder / "real"
    real.chmod(0o640)
    insert(fresh, 1, 3)
    assert numbers(tail(*EVENTS)) == [3]
    assert (tail.folder / "p").is_symlink() and real.stat().st_mode & 0o777 == 0o640
    assert tail("events", "--position", "real") == ""


@pytest.mark.server
def test_only_a_regular_file_is_touched(tail: Tail, fresh: Connection) -> None:
    os.mkfifo(tail.folder / "fifo")
    assert tail("events", "--position", "fifo", code=2) == "inorder: fifo is not a regular file\n"
    (tail.folder / "p").write_bytes(changed())
    assert 'relation "none" does not exist' in tail("none", "--position", "p", code=2)
    assert sorted(path.name for path in tail.folder.iterdir()) == ["fifo", "p"]
    assert (tail.folder / "fifo").is_fifo()


@pytest.mark.server
@pytest.mark.parametrize("limit", [0, 20, 100])
def test_without_disk_space_for_the_position_no_row_is_delivered(tail: Tail, fresh: Connection, limit: int) -> None:
    program = (
        f"import resource, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "from inorder.cli import main\nmain()"
    )
    for first in (1, 4):
        before = [path.read_bytes() for path in tail.folder.iterdir()]
        insert(fresh, 3, first)
        done = subprocess.run(
            [sys.executable, "-B", "-c", program, "tail", *EVENTS], check=False, capture_output=True, cwd=tail.folder,
            env=tail.environment, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode in (1, 2) and done.stdout == b""
        assert done.stderr.startswith((b"inorder: cannot open p: ", b"inorder: cannot write p, which is unchanged: "))
        assert done.stderr.endswith(b"File too large\n")
        assert [path.read_bytes() for path in tail.folder.iterdir()] == before
        assert numbers(tail(*EVENTS)) == [first, first + 1, first + 2]


@pytest.mark.server
def test_a_batch_with_a_key_is_read_back(tail: Tail, fresh: Connection) -> None:
    fresh.execute("CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY HASH (id)")
    fresh.execute("CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
    fresh.execute("CREATE INDEX ON parts (id); SELECT feed_enable('parts')")
    fresh.execute("INSERT INTO parts (n) SELECT generate_series(1, 10)")
    arguments = ("parts", "--position", "p", "--batch-rows", "3", "--accept-origin", "--exec")
    for _ in range(2):
        with tail.started(*arguments, "cat >> got; test $(wc -l < got) -ne 6 -a $(wc -l < got) -ne 9") as running:
            assert running.wait(PATIENCE) == 1
    assert tail.rows("got") == [1, 2, 3, 4, 5, 6, 4, 5, 6]
    assert numbers(tail(*arguments[:-1])) == [4, 5, 6, 7, 8, 9, 10]
    assert value(fresh, "SELECT count(*) FROM parts") == 10


@pytest.mark.parametrize(("seconds", "written"), [(0, [1, 1, 2, 2, 3, 3]), (1000, [1, 1, 1, 1, 2, 2])])
def test_only_states_that_must_survive_a_crash_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, written: list[int]
) -> None:
    synced: list[Path] = []
    kept_files: list[None] = []
    monkeypatch.setattr(position, "sync_folder", synced.append)
    monkeypatch.setattr(sources, "SAVE_SECONDS", seconds)
    batch, mark = Batch(BATCH, AFTER), Mark(5, "0" * 64)
    with PositionFile(tmp_path / "p") as file:
        source = TableSource(READ, "events", file, None, lambda: kept_files.append(None))
        source.save(State("tail", "public.events", STATE["position"]))
        kept_files.clear()
        steps: list[Callable[[], None]] = [
            lambda: source.begin(batch, "00", mark), lambda: source.finish(batch, mark),
            lambda: source.begin(batch, "00", mark), lambda: source.finish(batch, mark), source.flush, source.flush,
            lambda: source.begin(batch, None, None), lambda: source.finish(batch, None),
        ]  # fmt: skip
        counts = []
        for step in steps:
            step()
            counts.append((len(synced), len(kept_files)))
    assert [names for names, _ in counts] == [2, 2, 2, 2, 3, 3, 4, 5]
    assert [files for _, files in counts][:6] == written


@pytest.mark.parametrize(
    ("full", "size", "asked"),
    [(7, 700, 70), (200_000, 20_000_000, 1_000_000), (10, 10_000, 100), (900, 900_000, 9000), (10, 10**9, 7)],
)
def test_small_batches_into_a_file_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: int, size: int, asked: int
) -> None:
    limits: list[int] = []
    monkeypatch.setattr(TableSource, "ask", lambda _source, _position, max_rows: limits.append(max_rows))
    with PositionFile(tmp_path / "p") as file:
        source = TableSource(replace(READ, batch_rows=7), "events", file, None, lambda: None)
        source.expect(Batch(BATCH, AFTER, full), size)
    assert limits == [asked]
