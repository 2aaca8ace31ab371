"""Key files for COPY, with one key per line in the order of arrival, from simulated nodes or from a user's file."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.random import PCG64

from inorder.errors import InputError
from inorder.generate.encode import TEXT_LENGTH, TextLines, words_of
from inorder.generate.times import TICKS_PER_SECOND, TICKS_TO_1970, Times, Words
from inorder.generate.uuids import CHUNK, DataSet, chunks, random_low, v7_high

START = TICKS_TO_1970 + 1_735_689_600 * TICKS_PER_SECOND  # 2025-01-01 00:00 UTC
V1, V7 = "uuid-v1", "uuid-v7"


def simulated(kind: str, rows: int, seconds: float, nodes: int, lag: float, seed: int) -> Iterator[tuple[Words, Words]]:
    times = Times(START, round(seconds * TICKS_PER_SECOND), rows)
    return chunks(DataSet(kind, times, nodes, round(lag * TICKS_PER_SECOND), seed))


def own(kind: str, file: Path, rows: int, seed: int) -> Iterator[tuple[Words, Words]]:
    """Yield the first version-1 keys of a file, or version-7 keys with the same times.

    Raise InputError if the file has too few keys.
    """
    random, key_count = PCG64(seed), 0
    with file.open("rb") as lines:
        while key_count < rows and (chunk := list(islice(lines, min(CHUNK, rows - key_count)))):
            high, low = version_1(chunk, file)
            key_count += len(high)
            yield (high, low) if kind == V1 else (v7_high(times_of(high)), random_low(random.random_raw(len(high))))
    if key_count < rows:
        raise InputError(f"{file} has {key_count:,} keys, and {rows:,} are needed")


def version_1(lines: Sequence[bytes], file: Path) -> tuple[Words, Words]:
    are_complete = all(len(line.strip()) == TEXT_LENGTH - 1 for line in lines)
    try:
        high, low = words_of(b"".join(lines) if are_complete else b"?")
    except ValueError:
        raise InputError(f"{file}: a line is not a UUID of 36 characters") from None
    if np.any(high >> np.uint64(12) & np.uint64(15) != 1) or np.any(times_of(high) < TICKS_TO_1970):
        raise InputError(f"{file}: a line is not a UUID of version 1, or its time is before 1970")
    return high, low


def times_of(high: Words) -> Words:
    """Return the ticks in the high words of version-1 UUIDs. This is the inverse of v1_high.

    >>> from inorder.generate.uuids import v1_high
    >>> hex(times_of(v1_high(np.array([0x1E8_9265_FB2893AE], np.uint64)))[0])
    '0x1e89265fb2893ae'
    """
    time_high = (high & np.uint64(0xFFF)) << np.uint64(48)
    ticks: Words = time_high | (high & np.uint64(0xFFFF0000)) << np.uint64(16) | high >> np.uint64(32)
    return ticks


def write_keys(words: Iterable[tuple[Words, Words]], rows: int, files: tuple[Path, Path]) -> None:
    """Write the first ``rows`` keys to the first file, and the rest to the second. The server may read both files."""
    encoder, remaining = TextLines(CHUNK), rows * TEXT_LENGTH
    with files[0].open("wb") as first, files[1].open("wb") as second:
        for high, low in words:
            lines = encoder.encode(high, low)
            first.write(lines[:remaining])
            second.write(lines[remaining:])
            remaining = max(remaining - len(lines), 0)
    for file in files:
        file.chmod(0o644)


def write_numbers(rows: int, total: int, files: tuple[Path, Path]) -> None:
    for file, numbers in zip(files, (range(1, rows + 1), range(rows + 1, total + 1)), strict=True):
        with file.open("w", encoding="ascii") as lines:
            lines.writelines(f"{number}\n" for number in numbers)
        file.chmod(0o644)
