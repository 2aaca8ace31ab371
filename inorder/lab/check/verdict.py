"""The result of a reader in words: a sentence, and the contents of table cells. The functions are pure."""

import sys
from dataclasses import dataclass, field

from inorder.lab.check.arena import Failure, Outcome
from inorder.lab.check.diagram import diagram
from inorder.lab.check.history import FAULTS
from inorder.lab.check.ways import Way
from inorder.text import lines, plural

# For each case, the rows that may be lost.
ROWS = {
    "overlap": "rows of transactions that commit late",
    "three": "rows of transactions that commit late",
    "rollback": "rows that are inserted while another transaction is rolled back",
    "savepoints": "rows of transactions with savepoints",
    "prepared": "rows of prepared transactions",
    "many rows": "rows of transactions that insert several rows",
    "long": "rows of transactions that stay open for a minute",
    "long elsewhere": "rows that are inserted while another transaction is open for a minute",
    "wrote before": "rows of transactions that wrote to another table before",
    "id drawn before": "rows whose id was drawn before their transaction began",
    "clock behind": "rows of sessions whose clock is behind",
    "cached ids": "rows of sessions that take several ids of the sequence at a time",
    "between statements": "rows that are committed while the reader polls",
    "killed reader": "rows of a poll in which the reader is killed",
    "random load": "rows under random load",
    "inserts": "rows that are inserted",
    "updates": "rows of updates that commit late",
    "deletes": "rows that are deleted",
    "same row": "rows that two transactions update",
    "key changed": "rows whose key is updated",
    "long update": "rows of updates that stay open for a minute",
    "truncated": "rows of a table that is truncated",
}
MEANINGS = {
    "lost": "A row is committed, and never returned. The shortest schedule is shown.",
    "twice": "A row is returned more than once. The shortest schedule is shown.",
    "disorder": "A row is returned after a row of a later transaction. The shortest schedule is shown.",
    "differs": "A row differs between the copy and the table while no transaction is open. The shortest schedule is "
    "shown.",
    "stalled": "A row is committed, and not returned by the next poll. The longest wait is shown.",
}
# For each fault, the beginning of a table cell. A number of steps or rows follows.
CELLS = {"lost": "lost", "twice": "returned twice", "disorder": "out of order", "differs": "differs"}
# The verdict for each fault, the worst fault first.
SENTENCES = {
    "lost": 'Yes: the reader loses {rows}, for good. Use a feed (docs/feed.md): "inorder lab check feed" loses no row.',
    "differs": "Yes: the copy differs from the table, for good, in {rows}. "
    'Use changes_read (docs/changes.md): "inorder lab check changes" shows no difference.',
    "twice": "No row is lost, but the reader returns {rows} twice.",
    "disorder": "No row is lost, but the reader returns {rows} after rows of transactions that began later.",
    "stalled": "No row is lost, but committed rows wait for open transactions, here for up to {seconds} s.",
}


@dataclass
class Checked:
    way: Way
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def worst(self) -> dict[str, tuple[str, Failure]]:
        """For each fault, the case and the failure to show.

        This is the longest stall or, for other faults, the schedule with the fewest steps.
        """
        worst = {}
        for fault in FAULTS:
            failures = [(case.case, case.failures[fault]) for case in self.outcomes if fault in case.failures]
            if failures and fault == "stalled":
                worst[fault] = max(failures, key=lambda pair: pair[1].judged.longest)
            elif failures:
                worst[fault] = min(failures, key=lambda pair: len(pair[1].schedule) or sys.maxsize)
        return worst

    @property
    def schedules(self) -> int:
        return sum(outcome.schedules for outcome in self.outcomes)


def in_words(fault: str, failure: Failure) -> str:
    if fault == "stalled":
        stall = max(failure.judged.stalled, key=lambda stall: stall.seconds)
        return f"{stall.seconds} s" + (f", while {' and '.join(stall.behind)} is open" if stall.behind else "")
    if failure.schedule:
        return f"{CELLS[fault]} in {len(failure.schedule)} steps"
    return f"{CELLS[fault]}: {plural(len(getattr(failure.judged, fault)), 'row')}"


def drawn(failure: Failure) -> str:
    """Return the diagram of a failure, or "" for a failure under random load, which has no schedule."""
    return lines(diagram(failure.history, failure.judged)) if failure.schedule else ""


def sentence(checked: Checked) -> str:
    """Return the verdict, which names the worst fault, the rows that it affects, and the remedy."""
    worst = checked.worst
    for fault, text in SENTENCES.items():
        if fault in worst:
            case, failure = worst[fault]
            return text.format(rows=ROWS[case], seconds=failure.judged.longest)
    return f"No: none of {checked.schedules:,} schedules, and no random load, loses a row. This is no proof."
