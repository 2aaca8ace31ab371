"""Text of messages and tables. Names that other roles chose are escaped, and columns are aligned."""

import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import accumulate
from unicodedata import category, east_asian_width

# Categories of characters that a terminal draws over the previous letter. combining() returns 0 for the vowels and
# tones of many scripts.
MARKS = ("Mn", "Me")


def one_line(text: str) -> str:
    """Escape characters that control a terminal or begin a new line.

    >>> one_line("a\\nfeed 'b'\\x1b[2J ü")
    "a\\\\nfeed 'b'\\\\x1b[2J ü"
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def lines(text: str) -> str:
    """Escape each line of a message, so that a terminal interprets only its line breaks.

    >>> lines("no \\x1b[31mtable\\nHINT: ...")
    'no \\\\x1b[31mtable\\nHINT: ...'
    """
    return "\n".join(map(one_line, text.expandtabs().split("\n")))


def print_text(text: str) -> None:
    """Print text with names that other roles chose: escaped on a terminal, unchanged to a pipe or a file."""
    print(lines(text) if sys.stdout.isatty() else text)  # click.echo would strip escape sequences even for a pipe


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Format a number and its noun.

    >>> plural(1, "round"), plural(1200, "row")
    ('1 round', '1,200 rows')
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def listed(names: Iterable[object], separator: str = ", ") -> str:
    """Join names for a message. They are escaped, so that no name can begin a new line.

    >>> listed(["a", "b\\nHINT: c"])
    'a, b\\\\nHINT: c'
    """
    return separator.join(one_line(str(name)) for name in names)


def quoted(name: object) -> str:
    """Escape a name for a message, and put it in double quotes.

    >>> print(quoted("a\\nHINT: b"))
    "a\\nHINT: b"
    """
    return f'"{one_line(str(name))}"'


def first_of(names: Sequence[str], most: int) -> str:
    """Join at most this many names for a message, and state how many more there are.

    >>> first_of(["a", "b", "c"], 2), first_of(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    return listed(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def did_you_mean(name: str, names: Mapping[str, str]) -> str:
    """Return the question "Did you mean …?" with the most similar names, or "" if no name is similar.

    ``names`` maps each name to the string to show for it.

    >>> did_you_mean("order", {"orders": "public.orders", "o": "public.o"}), did_you_mean("x", {})
    ('Did you mean public.orders?', '')
    """
    alike = dict.fromkeys(names[each] for each in get_close_matches(name, names, n=3))
    return f"Did you mean {listed(alike, ' or ')}?" if alike else ""


def cells(text: str) -> int:
    """Return the number of terminal columns that a string takes.

    >>> cells("feed"), cells("注文"), cells("e\u0301"), cells("ที่ดี")
    (4, 4, 1, 2)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if category(character) in MARKS else 2 if east_asian_width(character) in "WF" else 1 for character in text
    )


def filled(text: str, places: int, to_the_right: bool = False) -> str:
    """Pad a string with spaces, or truncate it, to a number of terminal columns.

    >>> filled("注文", 5), filled("注文の一覧", 6), filled("7", 3, to_the_right=True)
    ('注文 ', '注文… ', '  7')
    """
    if cells(text) > places:
        ends = list(accumulate(map(cells, text)))
        text = text[: sum(end < places for end in ends)] + "…"
    spaces = " " * (places - cells(text))
    return spaces + text if to_the_right else text + spaces


def widths_of(table: Iterable[Sequence[str]]) -> list[int]:
    return [max(map(cells, column)) for column in zip(*table, strict=True)]


def aligned(row: Sequence[str], widths: Sequence[int], to_the_right: Container[int]) -> str:
    """Format a row of a table, with two spaces between columns.

    >>> aligned(["注文", "7", ""], [6, 3, 2], {1})
    '注文      7'
    """
    places = enumerate(zip(row, widths, strict=True))
    return "  ".join(filled(cell, width, place in to_the_right) for place, (cell, width) in places).rstrip()


def aligned_table(table: Sequence[Sequence[str]], to_the_right: Container[int]) -> list[str]:
    """Format all rows of a table, with columns as wide as their widest cell.

    >>> aligned_table([("status", "count"), ("new", "12")], {1})
    ['status  count', 'new        12']
    """
    widths = widths_of(table)
    return [aligned(row, widths, to_the_right) for row in table]
