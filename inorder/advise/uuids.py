"""Classify the keys of a column by the functions in its default, and by a sample of its values."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

RANDOM, V7, V1, V6, XACT, PREFIXED = "version 4", "version 7", "version 1", "version 6", "xact", "prefixed"
MIXED, IN_ORDER, AFTER, VERSION_8, UNKNOWN = "versions 4 and 7", "in order", "after random", "version 8", ""

# Functions of the server, inorder, uuid-ossp, pg_uuidv7 and sequential_uuids that generate keys.
MAKERS = {
    **dict.fromkeys(("gen_random_uuid", "uuidv4", "uuid_generate_v4"), RANDOM),
    **dict.fromkeys(("uuidv7", "uuid_v7_nextval", "uuid_generate_v7"), V7),
    **dict.fromkeys(("uuid_generate_v1", "uuid_generate_v1mc", "uuid_v1_nextval"), V1),
    **dict.fromkeys(("uuid_time_nextval", "uuid_sequence_nextval"), PREFIXED),
    "uuid_xact_nextval": XACT,
    "uuid_after_random_nextval": AFTER,
}
VERSIONS = {"1": V1, "4": RANDOM, "6": V6, "7": V7, "8": VERSION_8}
UUID = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[1-8][0-9a-f]{3}\1[89ab][0-9a-f]{3}\1[0-9a-f]{12}", re.IGNORECASE)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAST_VALUES = 10  # with fewer values, a column is judged only by its default
SOME = 0.05  # minimum share of another version in a mix
RISING = 0.9  # minimum correlation of ordered values with the physical order


@dataclass(frozen=True)
class Keys:
    """The kind of keys. A mix also has the share of version 7, and an upper bound of the first version-7 time."""

    kind: str
    share: float = 0.0
    since: datetime | None = None


def digits(value: str) -> str:
    """Return the hexadecimal digits of a UUID with a version of RFC 9562, or "" for any other string.

    >>> digits("018F4C5E-7B1A-7000-8000-000000000000"), digits("d41d8cd98f00b204e9800998ecf8427e")
    ('018f4c5e7b1a70008000000000000000', '')
    """
    return value.replace("-", "").lower() if UUID.fullmatch(value.strip()) else ""


def time_of(key: str) -> datetime:
    """Return the time in a version-7 key, or the greatest datetime if it is later: 48 bits reach to the year 10889.

    >>> time_of("018f4c5e7b1a70008000000000000000").year, time_of("ffffffffffff7fffbfffffffffffffff").year
    (2024, 9999)
    """
    return EPOCH + min(timedelta(milliseconds=int(key[:12], 16)), datetime.max.replace(tzinfo=UTC) - EPOCH)


def keys_of(values: Sequence[str], makers: Sequence[str], correlation: float | None, now: datetime) -> Keys:
    """Return the kind of a column's keys, determined from its values and from the functions in its default.

    >>> from hashlib import md5
    >>> now = datetime(2026, 11, 26, tzinfo=UTC)
    >>> random = [f"{n:02x}000000-0000-4000-8000-000000000000" for n in range(0, 200, 10)]
    >>> [keys_of(*given, now).kind for given in ((random, [], 0.1), (random, [], 0.99), ([], ["uuidv7"], None))]
    ['version 4', 'in order', 'version 7']
    >>> [keys_of(random, [maker], 0.1, now).kind for maker in ("uuidv7", "uuid_after_random_nextval")]
    ['versions 4 and 7', 'after random']
    >>> mixed = keys_of([*random, *(f"0198c000-0000-7000-8000-0000000000{n:02x}" for n in range(20))], [], None, now)
    >>> mixed.kind, mixed.share, f"{mixed.since:%Y-%m-%d}"
    ('versions 4 and 7', 0.5, '2025-08-19')

    About one hash in eight looks like a UUID:

    >>> keys_of([md5(bytes([n])).hexdigest() for n in range(200)], [], None, now).kind
    ''
    """
    kind_of_default = next((MAKERS[name] for name in makers if name in MAKERS), UNKNOWN)
    keys = [key for key in map(digits, values) if key]
    if kind_of_default == AFTER or len(keys) < max(LEAST_VALUES, (1 - SOME) * len(values)):
        return Keys(kind_of_default)
    shares = {version: sum(key[12] == version for key in keys) / len(keys) for version in VERSIONS}
    times = [time for key in keys if key[12] == "7" and (time := time_of(key)).year >= 2020 and time <= now]
    if shares["4"] >= SOME and (shares["7"] >= SOME or kind_of_default in (V7, XACT)):
        return Keys(MIXED, shares["7"], min(times, default=None))
    version, share = max(shares.items(), key=lambda item: item[1])
    kind = VERSIONS[version] if share > 1 - SOME else UNKNOWN
    if kind == RANDOM and kind_of_default == PREFIXED:  # the keys of sequential_uuids have version 4
        return Keys(PREFIXED)
    if kind == RANDOM and abs(correlation or 0) >= RISING:
        return Keys(IN_ORDER)
    return Keys(kind_of_default if kind == VERSION_8 and kind_of_default else kind)
