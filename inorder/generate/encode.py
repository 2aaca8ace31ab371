"""Encode words as lines of text, or as rows in binary COPY format, in buffers that are reused."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inorder.generate.times import Words

# A line contains the eight quarters of two words at these offsets, with four digits each. Hyphens separate groups of
# quarters, and a newline ends the line.
TEXT_OFFSETS = (0, 4, 9, 14, 19, 24, 28, 32)
TEXT_LENGTH = 37
HYPHENS = (8, 13, 18, 23)

# https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format"
COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(4) + bytes(4)  # signature, flags, length of header extension
COPY_TRAILER = b"\xff\xff"
COPY_ROW = np.dtype([("columns", ">i2"), ("length", ">i4"), ("high", ">u8"), ("low", ">u8")])


def quarters(words: Words) -> NDArray[np.uint16]:
    """Split each word into four 16-bit numbers, the highest first.

    >>> [hex(part) for part in quarters(np.array([0x0123456789ABCDEF], np.uint64))[0]]
    ['0x123', '0x4567', '0x89ab', '0xcdef']
    """
    parts: NDArray[np.uint16] = words.astype("<u8", order="C", copy=False).view("<u2").reshape(-1, 4)
    return parts[:, ::-1]


class TextLines:
    binary = False
    header = trailer = b""

    def __init__(self, size: int) -> None:
        digits = b"0123456789abcdef"
        self.table = np.frombuffer(bytes(d for four in product(digits, repeat=4) for d in four), np.uint32)
        self.lines = np.full((size, TEXT_LENGTH), ord("\n"), np.uint8)
        self.lines[:, HYPHENS] = ord("-")
        names = [f"quarter{number}" for number in range(len(TEXT_OFFSETS))]
        layout: Any = {"names": names, "formats": ["u4"] * 8, "offsets": TEXT_OFFSETS, "itemsize": TEXT_LENGTH}
        self.fields = [self.lines.reshape(-1).view(np.dtype(layout))[name] for name in names]

    def encode(self, high: Words, low: Words) -> memoryview:
        """Write four digits at a time, from a table of all 65,536 groups, between the hyphens of the lines."""
        columns = np.concatenate((quarters(high), quarters(low)), axis=1).T
        for field, column in zip(self.fields, columns, strict=True):
            field[: len(high)] = self.table[column]
        return self.lines[: len(high)].reshape(-1).data


class CopyBinary:
    """Rows with one column of 16 bytes, for COPY … WITH (FORMAT binary)."""

    binary = True
    header, trailer = COPY_HEADER, COPY_TRAILER

    def __init__(self, size: int) -> None:
        self.rows = np.zeros(size, COPY_ROW)
        self.rows["columns"], self.rows["length"] = 1, 16

    def encode(self, high: Words, low: Words) -> memoryview:
        rows = self.rows[: len(high)]
        rows["high"], rows["low"] = high, low
        return rows.view(np.uint8).data


Encoder = TextLines | CopyBinary  # the result of encode() is valid until its next call
ENCODERS: dict[str, type[Encoder]] = {"text": TextLines, "copy-binary": CopyBinary}


def words_of(lines: bytes) -> tuple[Words, Words]:
    pairs = np.frombuffer(bytes.fromhex(lines.replace(b"-", b"").decode("ascii")), ">u8").reshape(-1, 2)
    return pairs[:, 0].astype(np.uint64), pairs[:, 1].astype(np.uint64)
