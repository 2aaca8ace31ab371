"""A client of the extended query protocol that fetches a portal's rows in several requests, as some drivers do."""

import socket
import struct
from dataclasses import dataclass, field

from psycopg.conninfo import conninfo_to_dict

from hostile import framed, messages, row

VERSION_3 = 196608


@dataclass
class Answer:
    rows: int = 0
    suspended: bool = False
    error: str | None = None  # the error message


@dataclass
class Frontend:
    dsn: str
    stream: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        parts = conninfo_to_dict(self.dsn)
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(f"{parts['host']}/.s.PGSQL.{parts['port']}")
        self.received = self.stream.makefile("rb")
        parameters = f"user\0{parts['user']}\0database\0{parts['dbname']}\0\0".encode()
        self.stream.sendall(struct.pack("!ii", len(parameters) + 8, VERSION_3) + parameters)
        assert self.answer().error is None

    def close(self) -> None:
        self.received.close()
        self.stream.close()

    def query(self, text: str) -> Answer:
        self.send(b"Q", text.encode() + b"\0")
        return self.answer()

    def execute(self, text: str, rows: int, portal: str = "") -> Answer:
        name = portal.encode() + b"\0"
        self.send(b"P", b"\0" + text.encode() + b"\0\0\0")
        self.send(b"B", name + b"\0" + bytes(6))
        return self.fetch(rows, portal)

    def call(self, function: int, *arguments: str | None) -> Answer:
        parameters = row([None if text is None else text.encode() for text in arguments])
        self.send(b"F", struct.pack("!ih", function, 0) + parameters + struct.pack("!h", 0))
        return self.answer()

    def fetch(self, rows: int, portal: str) -> Answer:
        self.send(b"E", portal.encode() + b"\0" + struct.pack("!i", rows))
        self.send(b"S", b"")
        return self.answer()

    def send(self, kind: bytes, content: bytes) -> None:
        self.stream.sendall(framed(kind, content))

    def answer(self) -> Answer:
        answer = Answer()
        for kind, content in messages(self.received):
            if kind == b"D":
                answer.rows += 1
            elif kind == b"s":
                answer.suspended = True
            elif kind == b"E":
                fields = {field[:1]: field[1:].decode() for field in content.split(b"\0") if field}
                answer.error = fields[b"M"]
            elif kind == b"Z":
                return answer
        raise AssertionError("the server closed the connection")
