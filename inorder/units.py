"""Numbers as people write them: 10M or 1e7 rows, 128MB, 500ms."""

import re
from decimal import Decimal

from inorder.errors import InputError
from inorder.text import quoted

MB = 2**20
COUNT_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
DURATION_UNITS = {"": 1000, "MS": 1, "S": 1000, "M": 60_000, "MIN": 60_000, "H": 3_600_000, "D": 86_400_000}
BYTE_UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:E\d\d?)?)\s*([A-Z]*)", re.ASCII)
GROUPED = re.compile(r"\d{1,3}(?:[,_]\d{3})+", re.ASCII)  # 20,000; in 1,1 the comma does not separate thousands


def parse(text: str, units: dict[str, int], name: str, lowest: int, highest: int) -> int:
    """Parse a number with a unit, within a range. The error shows the input and the range."""
    plain = GROUPED.sub(lambda group: group[0].replace(",", "").replace("_", ""), text)
    match = NUMBER.fullmatch(plain.strip().upper())
    value = round(Decimal(match.group(1)) * units[match.group(2)]) if match and match.group(2) in units else None
    if value is None or not lowest <= value <= highest:
        examples = ", ".join(unit for unit in units if unit)
        allowed = f"a number from {lowest:,} to {highest:,}, optionally with a unit ({examples})"
        raise InputError(f"{name} must be {allowed}, not {quoted(text)}")
    return value


def parse_count(text: str, name: str, lowest: int = 1, highest: int = 10**12) -> int:
    """Parse a count, such as 500k for 500,000.

    >>> [parse_count(text, "rows") for text in ("10M", "1.5k", "20,000", "1e9")]
    [10000000, 1500, 20000, 1000000000]
    >>> parse_count("ten", "rows", 1, 99)
    Traceback (most recent call last):
    inorder.errors.InputError: rows must be a number from 1 to 99, optionally with a unit (K, M, G), not "ten"
    >>> parse_count("1,1", "rows", 1, 99)
    Traceback (most recent call last):
    inorder.errors.InputError: rows must be a number from 1 to 99, optionally with a unit (K, M, G), not "1,1"
    """
    return parse(text, COUNT_UNITS, name, lowest, highest)


def parse_bytes(text: str, name: str, lowest: int = 1, highest: int = 2**50) -> int:
    """Parse a number of bytes. Units are powers of two, as in PostgreSQL's settings.

    >>> parse_bytes("128MB", "memory")
    134217728
    """
    return parse(text, BYTE_UNITS, name, lowest, highest)


def parse_duration(text: str, name: str, lowest: float = 0.01, highest: float = 86_400) -> float:
    """Parse a duration, and return it in seconds, rounded to milliseconds. A number without a unit means seconds.

    >>> parse_duration("500ms", "time"), parse_duration("5s", "time"), parse_duration("1.5m", "time")
    (0.5, 5.0, 90.0)
    >>> parse_duration("soon", "time", 1, 9)
    Traceback (most recent call last):
    inorder.errors.InputError: time must be from 1 to 9 seconds, optionally with a unit (ms, s, m, h, d), not "soon"
    """
    match = NUMBER.fullmatch(text.strip().upper())
    unit = DURATION_UNITS.get(match.group(2)) if match else None
    seconds = float(round(Decimal(match.group(1)) * unit)) / 1000 if match and unit else None
    if seconds is None or not lowest <= seconds <= highest:
        allowed = f"from {lowest:,} to {highest:,} seconds, optionally with a unit (ms, s, m, h, d)"
        raise InputError(f"{name} must be {allowed}, not {quoted(text)}")
    return seconds


def short(count: int) -> str:
    """Format a count in as few characters as possible without rounding.

    >>> short(10_000_000), short(250_000), short(1_234)
    ('10 M', '250 k', '1,234')
    """
    for size, unit in ((10**6, "M"), (10**3, "k")):
        if count >= size and count % size == 0:
            return f"{count // size:,} {unit}"
    return f"{count:,}"


def typed_count(count: int) -> str:
    """Format a count as a user would type it, without commas, which separate values.

    >>> typed_count(2_000_000), typed_count(1_500_000), typed_count(12_345)
    ('2M', '1500k', '12345')
    """
    return short(count).replace(" ", "").replace(",", "")


def typed_size(size: int) -> str:
    """Format a number of bytes as a user would type it, in the largest unit that gives a whole number.

    >>> typed_size(2**30), typed_size(1536 * 2**20), typed_size(2**20 + 1)
    ('1GB', '1536MB', '1048577B')
    """
    unit = next(name for name in reversed(BYTE_UNITS) if name and size % BYTE_UNITS[name] == 0)
    return f"{size // BYTE_UNITS[unit]}{unit}"


def typed_seconds(seconds: float) -> str:
    """Format seconds as a user would type them, rounded to milliseconds.

    >>> typed_seconds(0.5), typed_seconds(86_399.999), typed_seconds(60.0)
    ('0.5s', '86399.999s', '60s')
    """
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def size_text(size: float) -> str:
    """Format a number of bytes as a size.

    >>> size_text(3 * 2**20), size_text(5.5 * 2**40), size_text(40_960)
    ('3 MB', '5.5 TB', '40 kB')
    """
    for unit, of_unit in (("TB", 2**40), ("GB", 2**30)):
        if size >= of_unit:
            return f"{size / of_unit:,.1f} {unit}"
    return f"{size / MB:,.0f} MB" if size >= MB else f"{size / 2**10:,.0f} kB"


def time_text(seconds: float) -> str:
    """Format seconds in the largest unit that gives a number of two or more, or exactly one.

    >>> time_text(3600), time_text(5400), time_text(45.5 * 86_400), time_text(7e9)
    ('1 h', '90 min', '45.5 days', '222 years')
    """
    for unit, of_unit in (("years", 365 * 86_400), ("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * of_unit or seconds == of_unit:
            return (
                f"{seconds / of_unit:,.3g} {unit}" if seconds < 1000 * of_unit else f"{seconds / of_unit:,.0f} {unit}"
            )
    return f"{seconds:,.3g} s"
