"""The history of a schedule as a diagram in time order, and as a script for several psql sessions.

The functions are pure.
"""

from collections.abc import Iterator, Sequence

from inorder.lab.check.history import Event, History, Judgement, order_of_sessions
from inorder.lab.check.schedule import READER

GAP = 2


def conclusion(judged: Judgement) -> Iterator[str]:
    for key in judged.lost:
        yield f"row {key} is committed, and no poll returns it: lost"
    for key in judged.twice:
        yield f"row {key} is returned twice"
    for key in judged.differs:
        yield f"row {key} differs between the copy and the table"
    for key in judged.disorder:
        yield f"row {key} is returned after a row of a transaction that began after row {key} was committed"
    for stall in judged.stalled:
        cause = f"while {' and '.join(stall.behind)} is open" if stall.behind else "though no transaction is open"
        yield f"row {stall.key} is committed, and polls do not return it yet, {cause}"


def at_once(events: Sequence[Event]) -> list[Event]:
    """Join the statements of a poll if no other step is between them, and join equal consecutive steps of a session.

    >>> [event.session for event in at_once([Event("A", "commit"), Event("B", "commit"), Event("B", "commit")])]
    ['A', 'B']
    """
    following = [*(event.session for event in events), ""][1:]
    parts = [event.session == READER and event.says.startswith("poll") and ":" not in event.says for event in events]
    steps = [
        event for event, is_part, then in zip(events, parts, following, strict=True) if not is_part or then != READER
    ]
    labels = [(event.session, event.says) for event in steps]
    return [event for place, event in enumerate(steps) if not place or labels[place] != labels[place - 1]]


def shown(event: Event) -> str:
    return event.says + (f" (waits for {', '.join(event.waits_for)})" if event.waits_for else "")


def diagram(history: History, judged: Judgement) -> str:
    """Return a diagram with a column for each session and a line for each step.

    >>> print(diagram(History(), Judgement(lost=("7",))))
    <BLANKLINE>
    row 7 is committed, and no poll returns it: lost

    >>> events = [Event("A", "begin, insert 1"), Event("B", "begin, insert 2, commit"), Event("reader", "poll: 2")]
    >>> print(diagram(History(events), Judgement(lost=("1",))))
    A                B                        reader
    begin, insert 1
                     begin, insert 2, commit
                                              poll: 2
    row 1 is committed, and no poll returns it: lost
    """
    sessions = order_of_sessions(history.events)
    widths = {name: max(len(name), *(len(shown(event)) for event in history.events if event.session == name)) + GAP
              for name in sessions}  # fmt: skip
    lines = ["".join(name.ljust(widths[name]) for name in sessions)]
    for event in at_once(history.events):
        indent = sum(widths[name] for name in sessions[: sessions.index(event.session)])
        lines.append(" " * indent + shown(event))
    return "\n".join(line.rstrip() for line in [*lines, *conclusion(judged)])


def psql_script(setup: Sequence[str], history: History, judged: Judgement) -> str:
    """Return the lines to enter into psql sessions, in order. Each line ends with the name of its session."""
    sessions = order_of_sessions(history.events)
    head = [
        f"-- Open {len(sessions)} sessions of psql on an empty database: {', '.join(sessions)}.",
        "-- Enter the lines in this order, each in the session that is named at the end of the line.",
    ]
    setup_lines = [f"{statement.strip().rstrip(';')};  -- {READER}" for text in setup for statement in statements(text)]
    step_lines = [f"{one_line(event.sql)}  -- {event.session}" for event in history.events if event.sql]
    return "\n".join([*head, *setup_lines, *step_lines, *(f"-- {sentence}" for sentence in conclusion(judged))]) + "\n"


def one_line(sql: str) -> str:
    text = " ".join(sql.split())
    return text if text.startswith("--") or text.endswith(";") else f"{text};"


def statements(text: str) -> list[str]:
    """Split a script into statements. A semicolon at the end of a line ends a statement.

    >>> statements("SELECT ';';\\nSELECT 2")
    ["SELECT ';'", 'SELECT 2']
    """
    parts = [statement.strip() for statement in text.replace(";\n", "\0").rstrip().rstrip(";").split("\0")]
    return [statement for statement in parts if statement]
