"""docs/troubleshooting.md has every error that the sources raise, and no other."""

import re

import pytest

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
    """Whether a reader who searches for the message finds the entry."""
    return re.fullmatch(".+".join(map(re.escape, entry.split("…"))), message) is not None


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_has_an_entry(message: str) -> None:
    """With its cause, and what to do."""
    assert any(stands_for(entry, message) for entry in ENTRIES), (
        f"docs/troubleshooting.md lacks it ({MESSAGES[message]})"
    )


@pytest.mark.parametrize("entry", sorted(set(ENTRIES)))
def test_every_entry_is_a_message(entry: str) -> None:
    """Which some source raises, and which the entry says most of."""
    assert len(re.findall(r"[a-z]", entry)) >= LEAST_LETTERS
    assert any(stands_for(entry, message) for message in MESSAGES)


def test_all_messages_are_found() -> None:
    """Those that other tests know by heart."""
    assert len(MESSAGES) > 170 and len(ENTRIES) == len(set(ENTRIES))
    for message in (
        'cannot … "…": it is insert-only', "table … has lost the guard of column …", "column … of table … may be null",
        "cannot read … by transactions: it is not a table", "feed_notify_trigger() must be called as a trigger",
    ):  # fmt: skip
        assert message in MESSAGES
