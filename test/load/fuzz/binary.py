"""Calls with valid and invalid values of the extension's types in the protocol's binary format."""

import random
import struct

from load.fuzz.oracles import Oracles
from load.fuzz.session import Session

STATEMENTS = (
    "SELECT $1::public.uuid_v1::text", "SELECT $1::public.feed_position::text", "SELECT $1::public.feed_batch::text",
    "SELECT $1::public.feed_member::text", "SELECT $1::public.feed_member[]::text", "SELECT $1::public.uuid_v1[]::text",
    "SELECT public.reader_next_batch('mallory.keys'::pg_catalog.regclass, $1::public.feed_position)",
    "SELECT public.reader_advance($1::public.feed_position, NULL)", "SELECT public.uuid_v1_get_node($1)",
)  # fmt: skip
FIELDS = 5
INT8MULTIRANGE, INT8, TEXT_ARRAY, TEXT = 4536, 20, 1009, 25


def composite(rng: random.Random) -> bytes:
    types = (INT8MULTIRANGE, INT8, TEXT_ARRAY, rng.choice((16390, 16400, 16410)), TEXT)
    amount = rng.choice((FIELDS, FIELDS, FIELDS, 4, 7, 0, -1, 1 << 30))
    data = struct.pack("!i", amount)
    for kind in types:
        content = rng.choice((b"", b"\x00" * 4, b"\x00" * 8, rng.randbytes(rng.randrange(40)), struct.pack("!i", 0)))
        length = rng.choice((len(content), len(content), -1, len(content) + 1, 1 << 30))
        data += struct.pack("!Ii", rng.choice((kind, kind, kind, 0, 16)), length) + (content if length >= 0 else b"")
    return data[: rng.choice((len(data), len(data), rng.randrange(len(data))))]


def value(rng: random.Random) -> bytes | None:
    return rng.choice((
        None, b"", rng.randbytes(16), rng.randbytes(15), rng.randbytes(17), bytes(16), composite(rng), composite(rng),
        rng.randbytes(rng.randrange(60)), bytes.fromhex("c232ab00941411ecb3c89f6bdeced846"),
    ))  # fmt: skip


def call(rng: random.Random, session: Session, oracles: Oracles) -> None:
    data = value(rng)
    outcome = session.run(rng.choice(STATEMENTS), [data])
    session.statements[-1] += f" /* $1 = \\x{data.hex() if data is not None else 'null'} in binary */"
    oracles.after(session, outcome, True)
