"""Calls through the fast-path interface of the protocol, which uses no query, plan or portal.

The libpq function for such calls is PQfn(). psycopg has no such function.
"""

import os
import random
import select
import struct

from hostile import framed, row
from load.fuzz import binary
from load.fuzz.calls import Calls
from load.fuzz.oracles import Oracles
from load.fuzz.session import Outcome, Session

AT_ONCE = 1 << 16
TEXT, BINARY = 0, 1
Values = list[bytes | None]


def message(oid: int, values: Values, form: int) -> bytes:
    """Return a FunctionCall message. Arguments and result are all in text format, or all in binary format.

    >>> message(7, [b"x", None], TEXT).hex()
    '4600000019000000070001000000020000000178ffffffff0000'
    """
    return framed(b"F", struct.pack("!iHH", oid, 1, form) + row(values) + struct.pack("!H", form))


def answer(line: int) -> dict[str, str]:
    """Read messages up to ReadyForQuery. Return the error's fields, or an empty dictionary if there was no error."""
    received, fields = b"", dict[str, str]()
    while True:
        select.select([line], [], [])
        if not (data := os.read(line, AT_ONCE)):
            return fields  # the connection was closed: libpq will notice this later
        received += data
        while len(received) > 4 and len(received) > (size := struct.unpack("!i", received[1:5])[0]):
            kind, body, received = received[:1], received[5 : size + 1], received[size + 1 :]
            if kind == b"E":
                fields = {text[:1].decode(): text[1:].decode(errors="replace") for text in body.split(b"\0") if text}
            elif kind == b"Z":
                return fields


def run(session: Session, oid: int, values: Values, form: int, shown: str) -> Outcome:
    """Make a call on the session's connection, which must be idle: libpq has then read all messages."""
    session.statements.append(shown)
    session.watchdog.begin(session.pid)
    try:
        line = session.connection.pgconn.socket
        os.write(line, message(oid, values, form))
        fields = answer(line)
    except OSError:
        fields = {}
    finally:
        elapsed = session.watchdog.end(session.pid)
    session.run("", quiet=True)  # lets libpq read the transaction status
    source = " ".join(fields.get(name, "") for name in "FLR")
    return Outcome(shown, elapsed, "08006" if session.lost else fields.get("C", ""), fields.get("M", ""), source)


def call(rng: random.Random, session: Session, calls: Calls, oracles: Oracles) -> Outcome:
    """Call a random function, with typed values in text format or with random bytes in binary format."""
    function = rng.choice(calls.catalogue.functions)
    form = rng.choice((TEXT, TEXT, TEXT, BINARY))
    values: Values = [binary.value(rng) for _ in function.types]
    if form == TEXT:
        texts = [f"({calls.values.of(*pair)})::text" for pair in zip(function.types, function.arguments, strict=True)]
        rows = session.run(f"SELECT {', '.join(texts)}", quiet=True).rows if texts else ()
        values = [value if value is None else value.encode() for value in rows[0]] if rows else [None] * len(values)
    if rng.random() < 0.05:
        values = values[1:]
    shown = f"/* by the fast path, {'in binary' if form else 'as text'}: {function.signature} of {values} */"
    outcome = run(session, function.oid, values, form, shown)
    oracles.after(session, outcome, True)
    return outcome
