"""Data sets of UUIDs: their contents, their output formats, and rejected options."""

import os
import pty
import re
import signal
import subprocess
import sys
import tracemalloc
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inorder.connection.database import Connection
from inorder.generate.command import opened, write
from inorder.generate.encode import TextLines, words_of
from inorder.generate.times import TICKS_PER_DAY, TICKS_PER_SECOND, TICKS_TO_1970, Times, Words, ticks_of
from inorder.generate.uuids import CHUNK, KINDS, DataSet, chunks

import preloaded
from conftest import ROOT
from waiting import PATIENCE, wait_for
from world.sql import value

UNTIL = ticks_of(datetime(2019, 1, 1, tzinfo=UTC))
YEAR = 365 * TICKS_PER_DAY
FIXED = ("--until", "2019-01-01")


def tool(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[bytes]:
    return preloaded.run(["generate", *arguments], folder, os.environ)


def generated(*arguments: str) -> list[uuid.UUID]:
    done = tool(*arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return [uuid.UUID(line) for line in done.stdout.decode().splitlines()]


def plan(kind: str = "uuid-v1", count: int = 100_000, **options: int) -> DataSet:
    return DataSet(kind, Times(UNTIL - YEAR, YEAR, count), **options)


def words(data_set: DataSet, size: int = CHUNK) -> tuple[Words, Words]:
    highs, lows = zip(*chunks(data_set, size), strict=True)
    return np.concatenate(highs), np.concatenate(lows)


def v1_times(high: Words) -> Words:
    low, mid, top = high >> np.uint64(32), high >> np.uint64(16) & np.uint64(0xFFFF), high & np.uint64(0xFFF)
    times: Words = top << np.uint64(48) | mid << np.uint64(32) | low
    return times


def v7_ticks(high: Words) -> Words:
    ticks: Words = (high >> np.uint64(16)) * np.uint64(4096) + (high & np.uint64(0xFFF))
    return ticks


@pytest.mark.parametrize("lag", [0, 30 * TICKS_PER_SECOND])
@pytest.mark.parametrize("nodes", [1, 9, 1000])
def test_values_of_version_1_have_the_requested_nodes_and_times(nodes: int, lag: int) -> None:
    high, low = words(plan(nodes=nodes, lag=lag))
    assert len(np.unique(np.stack((high, low)), axis=1).T) == 100_000
    times = v1_times(high)
    tails = np.unique(low)
    assert len(tails) == len(np.unique(tails & np.uint64(2**48 - 1))) == nodes
    assert (tails >> np.uint64(40) & np.uint64(1)).all() and (tails >> np.uint64(62) == 2).all()
    assert (high >> np.uint64(12) & np.uint64(0xF) == 1).all()
    for tail in tails:
        assert (np.diff(times[low == tail].astype(np.int64)) > 0).all()
    assert UNTIL - YEAR - lag <= times.min() < UNTIL - YEAR + YEAR // 10_000
    assert UNTIL - YEAR // 10_000 - lag < times.max() < UNTIL


def test_times_are_spread_evenly_with_jitter() -> None:
    high, low = words(plan())
    times = v1_times(high)
    assert np.histogram(times, 10, (UNTIL - YEAR, UNTIL))[0].tolist() == [10_000] * 10
    distances = np.diff(times)
    assert distances.std() == pytest.approx(YEAR / 100_000 / np.sqrt(6), rel=0.02)
    _, counts = np.unique(low, return_counts=True)
    # chi-square with 8 degrees of freedom: 1 in 300,000
    assert ((counts - 100_000 / 9) ** 2 / (100_000 / 9)).sum() < 40


def test_lag_reorders_values_between_nodes_and_never_within_a_node() -> None:
    lag = 1000 * TICKS_PER_SECOND
    high, low = words(plan(lag=lag))
    straight_high, straight_low = words(plan())
    assert (low == straight_low).all()
    behind = v1_times(straight_high) - v1_times(high)
    assert sorted(set(behind.tolist())) == [round(lag * node / 8) for node in range(9)]
    assert all(len(set(behind[low == tail].tolist())) == 1 for tail in np.unique(low))
    assert (np.diff(v1_times(straight_high).astype(np.int64)) > 0).all()
    assert (np.diff(v1_times(high).astype(np.int64)) < 0).mean() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_the_chunk_size_does_not_change_the_values(kind: str) -> None:
    data_set = plan(kind, 2_001, nodes=20, lag=12_345)
    assert np.array_equal(words(data_set), words(data_set, 1))
    assert np.array_equal(words(data_set), words(data_set, 777))
    assert np.array_equal(words(data_set), words(data_set, 777))


@given(
    count=st.integers(1, 10**12), spare=st.integers(0, 10**18), first=st.integers(0, 10**17), where=st.floats(0, 1),
    size=st.integers(1, CHUNK),
)  # fmt: skip
def test_the_intervals_of_values_are_exact_at_any_size(
    count: int, spare: int, first: int, where: float, size: int
) -> None:
    times = Times(first, count + spare, count)
    begin = min(int(where * count), count - 1)
    size = min(size, count - begin)
    borders = times.borders(begin, size)
    for position in (0, 1, size // 2, size):
        assert int(borders[position]) == first + (begin + position) * times.span // count
    lowest, highest = np.zeros(size, np.uint64), np.full(size, 2**64 - 1, np.uint64)
    assert np.array_equal(times.chunk(begin, lowest), borders[:-1])
    assert (times.chunk(begin, highest) < borders[1:]).all()


def test_ten_million_values_a_second_use_every_tick() -> None:
    dense = DataSet("uuid-v1", Times(UNTIL, 100_000, 100_000))
    assert np.array_equal(v1_times(words(dense)[0]), np.arange(UNTIL, UNTIL + 100_000, dtype=np.uint64))
    values = generated("uuid-v1", "--now", "--count", "1000", *FIXED)
    assert [value.time for value in values] == list(range(UNTIL, UNTIL + 1000))
    historic = generated("uuid-v1", "--count", "10000", "--interval", "1ms", *FIXED)
    assert [value.time for value in historic] == list(range(UNTIL - 10_000, UNTIL))


def test_version_7_has_the_times_of_version_1() -> None:
    v1, v7 = words(plan(lag=99 * TICKS_PER_SECOND))[0], words(plan("uuid-v7", lag=99 * TICKS_PER_SECOND))
    since = (v1_times(v1) - np.uint64(TICKS_TO_1970)).astype(np.int64)
    ticks = v7_ticks(v7[0]).astype(np.int64)
    ms = ticks // 4096
    late = (ms * 10_000 - since) * 100 + ticks % 4096 * (1e6 / 4096)
    assert np.abs(late).max() < 250
    assert np.array_equal(ms * 1000 + ticks % 4096 * 1000 // 4096, since // 10)
    assert (v7[0] >> np.uint64(12) & np.uint64(0xF) == 7).all() and (v7[1] >> np.uint64(62) == 2).all()
    assert len(np.unique(v7[1])) == 100_000


def test_version_4_is_random() -> None:
    high, low = words(plan("uuid-v4"))
    assert (high >> np.uint64(12) & np.uint64(0xF) == 4).all() and (low >> np.uint64(62) == 2).all()
    halves = np.stack((high, low), axis=1).astype(">u8").view(np.uint8)
    bits = np.delete(np.unpackbits(halves.reshape(-1, 16), axis=1), [48, 49, 50, 51, 64, 65], axis=1)
    for sample in (bits, bits[:, 1:] ^ bits[:, :-1], bits[1:] ^ bits[:-1]):
        ones = sample.sum(axis=0)
        count, degrees = len(sample), sample.shape[1]
        chi_square = ((ones - count / 2) ** 2 / (count / 4)).sum()
        assert abs(chi_square - degrees) < 5 * np.sqrt(2 * degrees)


@pytest.mark.parametrize(("kind", "version"), [("uuid-v1", 1), ("uuid-v7", 7), ("uuid-v4", 4)])
def test_equal_seeds_give_equal_values_of_the_requested_version(kind: str, version: int) -> None:
    arguments = (kind, "--count", "10k", *FIXED)
    done = tool(*arguments)
    assert done.returncode == 0 and done.stdout == tool(*arguments, "--seed", "1").stdout
    assert done.stdout != tool(*arguments, "--seed", "2").stdout
    values = [uuid.UUID(line) for line in done.stdout.decode().splitlines()]
    assert len(set(values)) == 10_000
    assert {(value.version, value.variant) for value in values} == {(version, uuid.RFC_4122)}
    assert "".join(f"{value}\n" for value in values).encode() == done.stdout
    assert bytes(TextLines(10_000).encode(*words_of(done.stdout))) == done.stdout


def test_the_current_time_is_the_default() -> None:
    before = ticks_of(datetime.now(UTC))
    times = [value.time for value in generated("uuid-v1", "--count", "1000", "--interval", "90s")]
    assert before - 90 * TICKS_PER_SECOND <= min(times) and max(times) < ticks_of(datetime.now(UTC))
    elsewhere = generated("uuid-v1", "--count", "100", "--until", "2019-01-01T05:30:00+05:30")
    assert elsewhere == generated("uuid-v1", "--count", "100", "--until", "2019-01-01T00:00:00Z")
    assert ticks_of(datetime(1582, 10, 15, tzinfo=UTC) + timedelta(seconds=1)) == TICKS_PER_SECOND


def test_the_examples_of_the_published_data_set_round_trip() -> None:
    lines = (
        b"fb2893ae-9265-11e8-90d8-e03f496e733b\nfb2c3d2e-9265-11e8-a131-e03f49777cbb\n"
        b"00393a28-9266-11e8-af1b-e03f4957fa73\n"
    )
    high, low = words_of(lines)
    assert bytes(TextLines(5).encode(high, low)) == lines
    assert v1_times(high).tolist() == [uuid.UUID(line.decode()).time for line in lines.split()]
    assert sorted(v1_times(high)) == v1_times(high).tolist() and lines.split()[2] == min(lines.split())


def test_copy_binary_is_as_specified(tmp_path: Path) -> None:
    values = generated("uuid-v1", "--count", "33k", *FIXED)
    done = tool("uuid-v1", "--count", "33k", *FIXED, "--format", "copy-binary", "--out", "v1.bin", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    head = bytes.fromhex("5047434f50590aff0d0a000000000000000000")
    rows = b"".join(b"\x00\x01\x00\x00\x00\x10" + value.bytes for value in values)
    assert (tmp_path / "v1.bin").read_bytes() == head + rows + b"\xff\xff"
    assert [path.name for path in tmp_path.iterdir()] == ["v1.bin"]


@pytest.mark.server
def test_both_formats_load_into_the_server(connection: Connection) -> None:
    connection.execute("CREATE TEMP TABLE text_rows (id uuid)")
    connection.execute("CREATE TEMP TABLE binary_rows (id uuid)")
    connection.execute("CREATE TEMP TABLE v1_rows (id uuid)")
    arguments = ("--count", "10k", *FIXED)
    for statement, data in (
        (b"COPY text_rows FROM STDIN", tool("uuid-v7", *arguments).stdout),
        (b"COPY binary_rows FROM STDIN (FORMAT binary)", tool("uuid-v7", *arguments, "--format", "copy-binary").stdout),
        (b"COPY v1_rows FROM STDIN", tool("uuid-v1", *arguments).stdout),
    ):
        with connection.cursor().copy(statement) as copy:
            copy.write(data)
    assert value(connection, "SELECT count(*) FROM (TABLE text_rows INTERSECT TABLE binary_rows) both_rows") == 10_000
    read = [row[0] for row in connection.execute("SELECT uuid_v7_time(id) FROM binary_rows ORDER BY id").fetchall()]
    all_ticks = [uuid.UUID(str(row[0])).time for row in connection.execute("SELECT id FROM v1_rows").fetchall()]
    epoch = datetime(1582, 10, 15, tzinfo=UTC)
    assert read == sorted(epoch + timedelta(microseconds=ticks // 10) for ticks in all_ticks)


def test_memory_does_not_grow_with_the_count(tmp_path: Path) -> None:
    tracemalloc.start()
    with opened(tmp_path / "v1.txt") as stream:
        write(plan(count=2_000_000), TextLines(CHUNK), stream)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "v1.txt").stat().st_size == 37 * 2_000_000
    assert peak < 7_400_000


def start(*arguments: str, folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "inorder", "generate", "uuid-v1", "--count", "100G", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)


@pytest.mark.parametrize("output", ["text", "copy-binary"])
def test_a_reader_that_closes_the_pipe_ends_the_output_quietly(tmp_path: Path, output: str) -> None:
    with start("--format", output, folder=tmp_path) as running:
        assert running.stdout and running.stderr
        assert len(running.stdout.read(37)) == 37
        running.stdout.close()
        assert running.wait(PATIENCE) == 141
        assert running.stderr.read() == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_no_file(tmp_path: Path, number: int, code: int) -> None:
    (tmp_path / "v1.txt").write_text("before\n")
    with start("--out", "v1.txt", folder=tmp_path) as running:
        wait_for(lambda: list(tmp_path.glob("v1.txt.*.partial")))
        running.send_signal(number)
        _, error = running.communicate(timeout=PATIENCE)
    assert running.returncode == code and b"Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["v1.txt"]
    assert (tmp_path / "v1.txt").read_text() == "before\n"


def test_devices_pipes_and_links_stay_what_they_are(tmp_path: Path) -> None:
    assert tool("uuid-v4", "--count", "1k", "--out", "/dev/null").returncode == 0
    assert Path("/dev/null").is_char_device() and not Path("/dev/null.partial").exists()
    (tmp_path / "link").symlink_to("file")
    assert tool("uuid-v4", "--count", "1k", "--out", "link", folder=tmp_path).returncode == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").stat().st_size == 37_000
    assert len(tool("uuid-v4", "--count", "1k", "--out", "-").stdout) == 37_000


def test_a_terminal_gets_text_only() -> None:
    try:
        leader, terminal = pty.openpty()
    except OSError:
        pytest.skip("no pseudo-terminal is available, as in a chroot without devpts")
    command = ["generate", "uuid-v4", "--count", "3"]
    refused = preloaded.Run([*command, "--format", "copy-binary"], ROOT, os.environ, terminal, subprocess.PIPE)
    assert refused.stderr
    with refused.stderr as errors:
        assert b"a terminal cannot show the binary format" in errors.read()
    assert refused.wait(PATIENCE) == 2
    assert preloaded.Run(command, ROOT, os.environ, terminal, terminal).wait(PATIENCE) == 0
    os.close(terminal)
    assert re.fullmatch(rb"([0-9a-f-]{36}\r\n){3}", os.read(leader, 4096))
    os.close(leader)


@pytest.mark.parametrize(
    ("arguments", "lowest", "highest"),
    [
        (("--until", "1582-10-16", "--interval", "1d"), 0, TICKS_PER_DAY),
        (("--until", "5236-03-31T21:21:00.684697Z", "--interval", "1d"), 2**60 - TICKS_PER_DAY - 10, 2**60),
        (("--until", "5236-01-01", "--interval", "1000000d"), 0, 2**60),
    ],
)
def test_values_of_version_1_stay_within_the_range_of_times(
    arguments: tuple[str, ...], lowest: int, highest: int
) -> None:
    times = [value.time for value in generated("uuid-v1", "--count", "1000", *arguments)]
    assert lowest <= min(times) and max(times) < highest and times == sorted(times)
