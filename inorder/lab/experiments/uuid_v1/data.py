"""The keys of the uuid-v1 experiment, as queries: the same moments as version 1, version 7 and a number.

Times ascend over a year in equal steps, each with a random part of a step
added. Every row comes from one of nine nodes at random, each with a node id
and a clock sequence that it keeps. "Random" is by hash of the row's number,
so that a seed gives the same keys again, whatever the order of evaluation.
"""

import random
from datetime import UTC, datetime

NODES = 9
TICKS_PER_SECOND = 10**7
YEAR_TICKS = 365 * 24 * 3600 * TICKS_PER_SECOND
GREGORIAN_START = datetime(1582, 10, 15, tzinfo=UTC)
FIRST_TICK = int((datetime(2025, 1, 1, tzinfo=UTC) - GREGORIAN_START).total_seconds()) * TICKS_PER_SECOND

# Which set of keys a kind of key reads: uuid_v1 and uuid the very same file.
VERSION_1 = "version_1"
VERSION_7 = "version_7"
NUMBERS = "numbers"
SETS = {"uuid_v1": VERSION_1, "uuid": VERSION_1, "uuid_v7": VERSION_7, "bigint": NUMBERS}

# OFFSET 0 keeps the hexadecimal time from being computed once for each part taken from it.
MOMENTS = """
SELECT n, lpad(to_hex({first} + n * {step} + (hashint8extended(n, {seed}) & 2147483647) % {step}), 16, '0') AS time,
       ('{{{tails}}}'::text[])[1 + (hashint8extended(n, {seed} + 1) & 2147483647) % {nodes}] AS tail
FROM (SELECT generate_series({low}::bigint, {high}::bigint) AS n) AS numbers OFFSET 0"""

FROM_MOMENT = """
SELECT n, (substr(time, 9, 8) || substr(time, 5, 4) || '1' || substr(time, 2, 3) || tail)::uuid::uuid_v1 AS id
FROM ({moments}) AS moments"""

# Time and the bits below it as the extension lays them out; the rest is random.
WITH_TIME = """
SELECT (left(uuid_v7_floor(uuid_v1_get_timestamp(id))::text, 19) || '8' ||
        substr(lpad(to_hex(hashint8extended(n, {seed} + 2)), 16, '0'), 2))::uuid
FROM ({keys} OFFSET 0) AS keys"""


def node_tails(seed: int) -> list[str]:
    """The last 8 bytes of each node's UUIDs: clock sequence with the variant's bits, node id with the multicast bit.

    >>> [len(tail) for tail in node_tails(1)] == [16] * NODES, node_tails(1) == node_tails(1)
    (True, True)
    """
    chance = random.Random(seed)
    tails = [(0x8000 | chance.getrandbits(14), chance.getrandbits(48) | 1 << 40) for _ in range(NODES)]
    return [f"{clock:04x}{node:012x}" for clock, node in tails]


def keys_query(keys: str, low: int, high: int, total: int, seed: int) -> str:
    """The query for one set's keys number low to high, of so many in the year, in the order they arrive."""
    if keys == NUMBERS:
        return f"SELECT generate_series({low}::bigint, {high}::bigint)"
    moments = MOMENTS.format(
        first=FIRST_TICK, step=max(1, YEAR_TICKS // total), seed=seed, tails=",".join(node_tails(seed)),
        nodes=NODES, low=low, high=high,
    )  # fmt: skip
    made = FROM_MOMENT.format(moments=moments)
    return WITH_TIME.format(keys=made, seed=seed) if keys == VERSION_7 else f"SELECT id FROM ({made}) AS keys"
