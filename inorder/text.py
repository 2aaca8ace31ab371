"""Names that other roles chose, as they are shown to people."""

from collections.abc import Iterable


def one_line(text: str) -> str:
    """Without characters that a terminal obeys, or that begin a line which the tool has not written.

    >>> one_line("a\\nfeed 'b'\\x1b[2J ü")
    "a\\\\nfeed 'b'\\\\x1b[2J ü"
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def lines(text: str) -> str:
    """A message of several lines, in which nothing else is obeyed.

    >>> lines("no \\x1b[31mtable\\nHINT: ...")
    'no \\\\x1b[31mtable\\nHINT: ...'
    """
    return "\n".join(map(one_line, text.expandtabs().split("\n")))


def listed(names: Iterable[object], separator: str = ", ") -> str:
    """Names in a message, of which none begins a line.

    >>> listed(["a", "b\\nHINT: c"])
    'a, b\\\\nHINT: c'
    """
    return separator.join(one_line(str(name)) for name in names)
