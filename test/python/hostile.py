"""An untrusted server: a real server whose messages to the client are changed on the way."""

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

# a terminal escape sequence, and text that imitates a line of the tool
ESCAPE = b"\x1b]0;taken\x07\x1b[2J\r\nHINT:  \xc2\x9b31m"
VALUES = (
    ESCAPE, b"\xff\xfe\x80", b"", b"9" * 5000, b"-1", b"NaN", b"{" * 3000, b"[" * 100_000, b"{}", b"null", b"1e999",
    b'{"transactions": "{[0,9)}"}', b"../../x", b"x" * 3_000_000, b"infinity", b"t", b"{1,2}",
)  # fmt: skip
TYPES = (0, 16, 17, 20, 21, 25, 26, 114, 600, 700, 869, 1082, 1114, 1184, 1186, 1700, 2249, 2950, 3802, 2**32 - 1)
SETTINGS = (
    b"client_encoding\0SQL_ASCII", b"client_encoding\0EUC_TW", b"client_encoding\0\xff", b"server_version\0x\x1b[2J",
    b"standard_conforming_strings\0off", b"integer_datetimes\0off", b"TimeZone\0\x1b[2J", b"DateStyle\0x",
    b"in_hot_standby\0on", b"IntervalStyle\0x",
)  # fmt: skip
Message = tuple[bytes, bytes]


def framed(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!I", len(content) + 4) + content


def fields(content: bytes) -> list[bytes | None]:
    values: list[bytes | None] = []
    place = 2
    while place + 4 <= len(content):
        (size,) = struct.unpack_from("!i", content, place)
        place += 4
        values.append(None if size < 0 else content[place : place + size])
        place += max(size, 0)
    return values


def row(values: list[bytes | None]) -> bytes:
    parts = [struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values]
    return struct.pack("!h", len(values)) + b"".join(parts)


def error(state: bytes, text: bytes) -> bytes:
    parts = b"SERROR", b"VERROR", b"C" + state, b"M" + text, b"D" + text, b"H" + text
    return framed(b"E", b"\0".join(parts) + b"\0\0")


class Liar:
    def __init__(self, seed: int, rarity: int) -> None:
        self.chance, self.rarity = random.Random(seed), rarity
        self.told: list[str] = []
        self.is_over = False  # true when the connection must end

    def changed(self, kind: bytes, content: bytes) -> bytes | None:
        """Return the message that the client gets instead of the server's message, or None to end the connection."""
        if self.chance.randrange(self.rarity):
            return framed(kind, content)
        lie = self.chance.choice([*LIES.get(kind, ()), *ANYWHERE])
        self.told.append(f"{kind.decode()} {lie}")
        return getattr(self, lie)(kind, content)  # type: ignore[no-any-return]

    # --- lies about any message ---

    def ends(self, _kind: bytes, _content: bytes) -> None:
        return None

    def cut(self, kind: bytes, content: bytes) -> bytes:
        self.is_over = True
        return framed(kind, content)[: self.chance.randrange(len(content) + 5)]

    def long(self, kind: bytes, content: bytes) -> bytes:
        self.is_over = True
        return kind + struct.pack("!I", self.chance.choice([0, 3, 2**31 - 1, 2**32 - 1, 2**30 - 1])) + content

    def error(self, kind: bytes, content: bytes) -> bytes:
        state = self.chance.choice([b"XX000", b"42P01", b"55000", b"54000", b"00000", b"\x1b[2J", b"42501"])
        return error(state, self.chance.choice([ESCAPE, b"", b"\xff", b"x" * 100_000])) + framed(kind, content)

    def notice(self, kind: bytes, content: bytes) -> bytes:
        return b"N" + error(b"01000", ESCAPE)[1:] + framed(kind, content)

    def setting(self, kind: bytes, content: bytes) -> bytes:
        return framed(b"S", self.chance.choice(SETTINGS) + b"\0") + framed(kind, content)

    def garbage(self, kind: bytes, content: bytes) -> bytes:
        return framed(self.chance.choice([b"?", b"\xff", b"R", b"K", b"1", b"s", b"A"]), ESCAPE) + framed(kind, content)

    # --- lies about some messages ---

    def types(self, kind: bytes, content: bytes) -> bytes:
        place, changed = 2, bytearray(content)
        for _ in range(struct.unpack_from("!h", content)[0]):
            place = content.index(b"\0", place) + 1
            struct.pack_into("!I", changed, place + 6, self.chance.choice(TYPES))
            place += 18
        return framed(kind, bytes(changed))

    def binary(self, kind: bytes, content: bytes) -> bytes:
        changed = bytearray(content)
        place = 2
        for _ in range(struct.unpack_from("!h", content)[0]):
            place = content.index(b"\0", place) + 19
            struct.pack_into("!h", changed, place - 2, 1)
        return framed(kind, bytes(changed))

    def values(self, kind: bytes, content: bytes) -> bytes:
        return framed(kind, row([self.chance.choice([value, *VALUES, None]) for value in fields(content)]))

    def one_value(self, kind: bytes, content: bytes) -> bytes:
        values = fields(content)
        if values:
            values[self.chance.randrange(len(values))] = self.chance.choice([*VALUES, None])
        return framed(kind, row(values))

    def latin(self, kind: bytes, content: bytes) -> bytes:
        return framed(kind, row([b"\xe4", *fields(content)[1:]]))

    def fewer(self, kind: bytes, content: bytes) -> bytes:
        return framed(kind, row(fields(content)[:-1]))

    def many(self, kind: bytes, content: bytes) -> bytes:
        return framed(kind, content) * 3

    def none(self, kind: bytes, content: bytes) -> bytes:
        return b""

    def copy_in(self, kind: bytes, content: bytes) -> bytes:
        return framed(b"G", b"\0\0\0")

    def error_and_copy(self, kind: bytes, content: bytes) -> bytes:
        return error(b"XX000", b"no") + framed(kind, content)

    def copy_both(self, kind: bytes, content: bytes) -> bytes:
        return framed(b"W", b"\0\0\0")

    def text(self, kind: bytes, content: bytes) -> bytes:
        return framed(kind, self.chance.choice(VALUES))


ANYWHERE = ("ends", "cut", "long", "error", "notice", "setting", "garbage")
LIES = {
    b"T": ("types", "binary", "types"),
    b"D": ("values", "one_value", "one_value", "one_value", "fewer", "many", "none"),
    b"C": ("copy_in", "copy_both", "none", "many"),
    b"H": ("copy_in", "copy_both", "none"),
    b"d": ("text", "many", "none"),
    b"Z": ("many",),
}


class OneLie(Liar):
    def __init__(self, kind: bytes, lie: str, about: bytes = b"") -> None:
        super().__init__(0, 1)
        self.kind, self.lie, self.about = kind, lie, about

    def changed(self, kind: bytes, content: bytes) -> bytes | None:
        if kind != self.kind or self.about not in content or self.told:
            return framed(kind, content)
        self.told.append(self.lie)
        return getattr(self, self.lie)(kind, content)  # type: ignore[no-any-return]


@dataclass
class Hostile:
    folder: Path
    real: Path
    liar: Liar
    listener: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError, ValueError):
            server.connect(str(self.real))
            threading.Thread(target=passed, args=(client, server), daemon=True).start()
            with server.makefile("rb") as stream:
                ready = False
                for kind, content in messages(stream):
                    text = self.liar.changed(kind, content) if ready else framed(kind, content)
                    ready = ready or kind == b"Z"
                    if text is None:
                        break
                    client.sendall(text)
                    if self.liar.is_over:
                        self.liar.is_over = False
                        break
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)


def messages(stream: BinaryIO) -> Iterator[Message]:
    while head := stream.read(5):
        yield head[:1], stream.read(struct.unpack("!I", head[1:])[0] - 4)


def passed(client: socket.socket, server: socket.socket) -> None:
    with suppress(OSError):
        while data := client.recv(65536):
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)


@contextmanager
def hostile(folder: Path, real: Path, liar: Liar) -> Iterator[Hostile]:
    place = Hostile(folder, real, liar)
    try:
        yield place
    finally:
        place.listener.shutdown(socket.SHUT_RDWR)
        place.listener.close()
        (folder / ".s.PGSQL.5432").unlink()
