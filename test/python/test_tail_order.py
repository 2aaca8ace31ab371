"""inorder tail --order-by delivers rows in the order of a column.

The order is kept even if a transaction got its ID long before it wrote.
"""

import json

import pytest
from inorder.cli import cli
from inorder.connection.database import Connection, connect
from inorder.tail.state import decode

from tail_runs import Tail, numbers

pytestmark = [pytest.mark.server, pytest.mark.editions]


@pytest.fixture
def ordered(fresh: Connection) -> Connection:
    """Return a session with a table whose identity column gets its value when the row is written."""
    fresh.execute('ALTER TABLE events ADD "s q" bigint GENERATED ALWAYS AS IDENTITY')
    fresh.execute('CREATE INDEX ON events ("s q")')
    return fresh


def write(connection: Connection, *values: int) -> None:
    connection.execute("INSERT INTO events (n) SELECT unnest(%s::int[])", [list(values)])


def test_rows_come_in_the_order_of_the_column(tail: Tail, ordered: Connection) -> None:
    with connect(ordered.info.dsn) as early, early.transaction():
        write(early, 1)
        write(ordered, 2, 3)
        write(early, 4)
    assert numbers(tail("events", "--position", "plain")) == [1, 4, 2, 3]
    assert numbers(tail("events", "--position", "p", "--order-by", "s q", "--batch-rows", "3")) == [1, 2, 3, 4]
    write(ordered, 5)
    assert numbers(tail("events", "--position", "p")) == [5]


def test_a_set_that_was_begun_is_finished_first(tail: Tail, ordered: Connection) -> None:
    """Before the next run delivers later transactions, it finishes the set, even with a batch that is not full."""
    write(ordered, *range(1, 8))
    failing = ("--exec", "cat >> got; test $(wc -l < got) -ne 6")
    options = ("events", "--position", "p", "--order-by", "s q", "--batch-rows", "3")
    tail(*options, *failing, code=1)
    state = decode((tail.folder / "p").read_bytes())
    assert state.pending and state.pending.after["ordering"]["frozen"]
    write(ordered, *range(8, 12))
    assert numbers(tail(*options)) == [4, 5, 6, 7, 8, 9, 10, 11]
    assert tail(*options) == ""


def test_a_position_for_another_order_is_refused(tail: Tail, ordered: Connection) -> None:
    write(ordered, 1)
    tail("events", "--position", "plain")
    tail("events", "--position", "p", "--order-by", "s q")
    assert "has a position in the order of transactions, not in the order of column s q" in tail(
        "events", "--position", "plain", "--order-by", "s q", code=2
    )
    assert "has a position in the order of column s q, not in the order of column n" in tail(
        "events", "--position", "p", "--order-by", "n", code=2
    )
    assert "column n of table public.events may be null" in tail("events", "--position", "q", "--order-by", "n", code=2)
    damaged = json.loads((tail.folder / "p").read_text())
    damaged["position"]["ordering"]["attnum"] = "x"
    (tail.folder / "p").write_text(json.dumps(damaged))
    assert 'cannot use p: it is damaged, or not a position file: invalid input syntax for type smallint: "x"' in tail(
        "events", "--position", "p", code=2
    )
    assert "--order-by" in cli.commands["tail"].get_help(cli.make_context("inorder", ["tail"]))


def test_a_feed_delivers_all_sets(tail: Tail, ordered: Connection) -> None:
    ordered.execute("SELECT feed_create('f', 'events', order_column => 's q')")
    write(ordered, *range(1, 8))
    ordered.execute("SELECT count(*) FROM feed_read('f', null::events, 5)")
    write(ordered, 8, 9)
    assert numbers(tail("--feed", "f", "--batch-rows", "4")) == [6, 7, 8, 9]


def test_whole_transactions_are_in_one_batch(tail: Tail, fresh: Connection) -> None:
    for size in (3, 1, 2, 1, 4):
        write(fresh, *[size] * size)
    lines = "tr '\\n' ' ' >> got; echo >> got"
    tail("events", "--position", "p", "--whole-transactions", "--batch-rows", "2", "--format", "csv", "--exec",
         f"tail -n +2 | grep -o '[0-9]*$' | {lines}")  # fmt: skip
    assert (tail.folder / "got").read_text().split("\n") == ["3 3 3 ", "1 2 2 ", "1 4 4 4 4 ", ""]
