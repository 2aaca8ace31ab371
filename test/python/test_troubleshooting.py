"""docs/troubleshooting.md has every error that the sources raise, and no other."""

import re

from conftest import text
from messages import messages

PAGE = text("docs/troubleshooting.md")
# What stands in the first column of the tables of errors.
ENTRIES = [
    entry for row in re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE) for entry in re.findall(r"`([^`]+)`", row)
]
LEAST_LETTERS = 10  # fewer would stand for any message
MESSAGES = messages()


def stands_for(entry: str, message: str) -> bool:
    return re.fullmatch(".+".join(map(re.escape, entry.split("…"))), message) is not None


def test_every_message_has_an_entry() -> None:
    lacking = [message for message in MESSAGES if not any(stands_for(entry, message) for entry in ENTRIES)]
    assert {message: MESSAGES[message] for message in lacking} == {}, "docs/troubleshooting.md lacks them"


def test_every_entry_is_a_message() -> None:
    assert [entry for entry in ENTRIES if len(re.findall(r"[a-z]", entry)) < LEAST_LETTERS] == []
    assert [entry for entry in ENTRIES if not any(stands_for(entry, message) for message in MESSAGES)] == []


def test_all_messages_are_found() -> None:
    assert len(MESSAGES) > 170 and len(ENTRIES) == len(set(ENTRIES))
    for message in (
        'cannot … "…": it is insert-only', "table … has lost the guard of column …", "column … of table … may be null",
        "cannot read … by transactions: it is not a table", "feed_notify_trigger() must be called as a trigger",
    ):  # fmt: skip
        assert message in MESSAGES
