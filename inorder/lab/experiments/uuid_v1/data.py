"""The keys of the uuid-v1 experiment, as queries: the same moments as version 1, version 7 and a number.

Times ascend over a year in equal steps, each with a random part of a step
added. Every row comes from one of the nodes at random, each with a node id
and a clock sequence that it keeps. "Random" is by hash of the row's number,
so that a seed gives the same keys again, whatever the order of evaluation.
"""

import random
from datetime import UTC, datetime

from inorder.lab.experiments.uuid_v1.plan import UuidV1Plan
from inorder.lab.keys import SCHEMA

TICKS_PER_SECOND = 10**7
YEAR_TICKS = 365 * 24 * 3600 * TICKS_PER_SECOND
GREGORIAN_START = datetime(1582, 10, 15, tzinfo=UTC)
FIRST_TICK = int((datetime(2025, 1, 1, tzinfo=UTC) - GREGORIAN_START).total_seconds()) * TICKS_PER_SECOND

# Which set of keys a kind of key reads: uuid_v1 and uuid the very same file.
VERSION_1 = "version_1"
VERSION_7 = "version_7"
NUMBERS = "numbers"
SETS = {"uuid_v1": VERSION_1, "uuid": VERSION_1, "uuid_v7": VERSION_7, "bigint": NUMBERS}

# OFFSET 0 keeps the hexadecimal time from being computed once for each part taken from it. The clock of the last node
# is behind by the lag, those of the others by less.
MOMENTS = """
SELECT n, lpad(to_hex({first} + n * {step} + (hashint8extended(n, {seed}) & 2147483647) % {step}
                      - node * {lag} / {last}), 16, '0') AS time, ('{{{tails}}}'::text[])[1 + node] AS tail
FROM (SELECT n, (hashint8extended(n, {seed} + 1) & 2147483647) % {nodes} AS node
      FROM (SELECT generate_series({low}::bigint, {high}::bigint) AS n) AS numbers) AS rows OFFSET 0"""

FROM_MOMENT = """
SELECT n, (substr(time, 9, 8) || substr(time, 5, 4) || '1' || substr(time, 2, 3) || tail)::uuid::uuid_v1 AS id
FROM ({moments}) AS moments"""

# Keys of the user's own, by number of arrival.
OWN = f"{SCHEMA}.own_keys"
FROM_OWN = f"SELECT n, id FROM {OWN} WHERE n BETWEEN {{low}} AND {{high}} ORDER BY n"

# Time and the bits below it as the extension lays them out; the rest is random.
WITH_TIME = """
SELECT (left(uuid_v7_floor(uuid_v1_get_timestamp(id))::text, 19) || '8' ||
        substr(lpad(to_hex(hashint8extended(n, {seed} + 2)), 16, '0'), 2))::uuid
FROM ({keys} OFFSET 0) AS keys"""


def node_tails(seed: int, nodes: int) -> list[str]:
    """The last 8 bytes of each node's UUIDs: clock sequence with the variant's bits, node id with the multicast bit.

    >>> [len(tail) for tail in node_tails(1, 9)] == [16] * 9, node_tails(1, 9)[:5] == node_tails(1, 5)
    (True, True)
    """
    chance = random.Random(seed)
    tails = [(0x8000 | chance.getrandbits(14), chance.getrandbits(48) | 1 << 40) for _ in range(nodes)]
    return [f"{clock:04x}{node:012x}" for clock, node in tails]


def keys_query(keys: str, low: int, high: int, plan: UuidV1Plan) -> str:
    """The query for one set's keys number low to high in the order they arrive, of those in the year or in the file."""
    if keys == NUMBERS:
        return f"SELECT generate_series({low}::bigint, {high}::bigint)"
    moments = MOMENTS.format(
        first=FIRST_TICK, step=max(1, YEAR_TICKS // plan.total), seed=plan.seed, low=low, high=high, nodes=plan.nodes,
        tails=",".join(node_tails(plan.seed, plan.nodes)), lag=round(plan.lag * TICKS_PER_SECOND),
        last=max(1, plan.nodes - 1),
    )  # fmt: skip
    made = FROM_OWN.format(low=low, high=high) if plan.file else FROM_MOMENT.format(moments=moments)
    return WITH_TIME.format(keys=made, seed=plan.seed) if keys == VERSION_7 else f"SELECT id FROM ({made}) AS keys"
