"""The messages of all errors that the sources raise. The sign … stands for names and values."""

import re
from collections.abc import Iterator
from pathlib import Path

from sources import C_FILES, PLAIN_FILES, ROOT, SQL_FILES

LITERALS = r'((?:\s*(?:"(?:[^"\\]|\\.)*"|[A-Z_0-9]+))+)'
IN_C = re.compile(rf"\berrmsg(?:_plural)?\({LITERALS}")
# Only messages of level ERROR are errors.
IN_SQL = re.compile(r"\bRAISE (?:EXCEPTION )?'((?:[^']|'')*)'")


def in_c(source: str) -> Iterator[str]:
    """Yield the error messages in C source code.

    >>> list(in_c('ereport(ERROR, (errmsg("table %s has \\\\"%.*s\\\\" of %llu" " rows", a)));'))
    ['table … has "…" of … rows']
    """
    for report in re.findall(r"ereport\(ERROR\b.*?\);(?:\n|$)", source, re.DOTALL):
        for literals in IN_C.findall(report):
            parts = re.findall(r'"((?:[^"\\]|\\.)*)"|([A-Z_0-9]{2,})', literals)
            text = "".join("…" if constant else literal for literal, constant in parts)
            yield re.sub(r"%[-.*0-9]*(?:ll|l)?[a-z]", "…", text).replace('\\"', '"')


def in_sql(source: str) -> Iterator[str]:
    """Yield the error messages in SQL source code.

    >>> list(in_sql("RAISE 'start must be ''now'', not %', x; RAISE WARNING 'no error';"))
    ["start must be 'now', not …"]
    """
    for text in IN_SQL.findall(source):
        yield text.replace("''", "'").replace("%", "…")


# Messages that a caller composes: the source file, a pattern that finds the parts, and a format for the message.
FAULTS = (("sql/ports/table.sql", r"THEN '(is [^;]*?|has [^;]*?)'\n", "feeds and exact counts cannot read …: it {}"),)
AROUND = {"feeds and exact counts cannot read …: it …"}


def messages() -> dict[str, str]:
    by_message: dict[str, str] = {}
    for path in C_FILES:
        by_message |= dict.fromkeys(in_c(path.read_text()), path.name)
    for path in [*SQL_FILES, *PLAIN_FILES]:
        by_message |= {text: by_message.get(text, path.name) for text in in_sql(path.read_text())}
    assert set(by_message) >= AROUND
    for name, pattern, around in FAULTS:
        faults = re.findall(pattern, (ROOT / name).read_text())
        assert faults, f"{name} has no part of a composed message"
        for fault in faults:
            says = re.sub(r"%[a-zA-Z]", "…", fault).replace("''", "'").replace('\\"', '"')
            by_message[around.format(says)] = Path(name).name
    return {text: name for text, name in by_message.items() if text not in AROUND}
