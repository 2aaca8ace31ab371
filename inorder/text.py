"""Names that other roles chose, as they are shown to people."""


def one_line(text: str) -> str:
    """Without characters that a terminal obeys, or that begin a line which the tool has not written.

    >>> one_line("a\\nfeed 'b'\\x1b[2J ü")
    "a\\\\nfeed 'b'\\\\x1b[2J ü"
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
