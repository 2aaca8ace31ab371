"""Verdicts of inorder advise on recorded facts about a table of orders.

Each order was inserted, and then its status was updated.

Version 7 keys reduced the WAL of this table by 57 %: see record_advice.py.
"""

from dataclasses import replace

import pytest
from inorder.advise.cost import after_switch
from inorder.advise.facts import Facts, Statement
from inorder.advise.finding import Finding, Unadvised
from inorder.advise.findings import advice_of, keyed, load_of
from inorder.advise.polls import Poll, Understood
from inorder.advise.report import of_server

from advice_facts import recorded_facts

ORDERS = '"public"."orders"'
UPDATE = "UPDATE orders SET status"


def advised(facts: Facts) -> tuple[list[Finding], list[Unadvised]]:
    return advice_of(facts, 1)


def with_images(facts: Facts, each: float) -> Facts:
    """Return the facts with this number of page images for each row changed by UPDATE."""
    return replace(facts, statements=[
        replace(statement, images=each * statement.rows) if statement.text.startswith(UPDATE) else statement
        for statement in facts.statements
    ])  # fmt: skip


def without(facts: Facts) -> Facts:
    return replace(
        facts, statements=[statement for statement in facts.statements if not statement.text.startswith(UPDATE)]
    )


def test_updates_without_page_images_count_as_updates_of_new_rows() -> None:
    """Updates affect only new rows, so the estimated cost has a range narrow enough for a verdict."""
    (finding,), left_tables = advised(recorded_facts())
    assert (finding.id, finding.table, left_tables) == ("random-key", ORDERS, [])
    assert "The saving is 49 % of the WAL of the table." in finding.cost
    assert "0.00 page images for each row that UPDATE changed" in [fact.what for fact in finding.evidence]


def test_updates_with_an_image_for_each_row_count_as_updates_of_any_row() -> None:
    findings, (left_table,) = advised(with_images(recorded_facts(), 0.9))
    assert findings == [] and not left_table.undecided
    assert left_table.why == "the key costs little: ordered keys would save 13 % of the table's WAL"


@pytest.mark.parametrize("sees_all", [True, False])
def test_there_is_no_verdict_if_the_threshold_is_within_the_range(sees_all: bool) -> None:
    facts = recorded_facts()
    facts = without(facts) if sees_all else replace(facts, server=replace(facts.server, sees_all=False))
    findings, (left_table,) = advised(facts)
    assert findings == [] and left_table.undecided
    assert "13 % (45 % if updates change only new rows)" in left_table.why
    assert 'inorder lab run insert --like \'"public"."orders"\' --touch recent' in left_table.why
    advice = of_server(facts, findings, [left_table])
    assert "\nUndecided\n" in advice.as_text() and "\nLeave as they are\n" not in advice.as_text()
    data = advice.as_data()
    assert data["leave"] == [] and data["undecided"][0]["table"] == ORDERS


def test_both_kinds_of_key_are_offered_with_their_cost() -> None:
    """If 20 % more keys of version 7 are inserted, the index grows by 26 to 30 %, as in docs/results/mixed-18.md."""
    facts = recorded_facts()
    (finding,), _ = advised(facts)
    assert finding.remedy[-1].endswith('SET DEFAULT "inorder"."uuid_after_random_nextval"()')
    assert finding.instead[-1].endswith("SET DEFAULT uuidv7()")
    (key,) = keyed(facts)
    fifth = replace(load_of(key, facts, 1e9), inserts=key.leaf.rows / 5 / 86_400)
    (among_wal, among), (after_wal, after) = (after_switch([fifth], is_last) for is_last in (False, True))
    size = key.index.pages * 8192
    assert 0.26 < among / size < 0.30 and among / after == pytest.approx(0.9 / 0.5) and among_wal > after_wal
    assert "7.2 GB a day" in finding.choice and "4.0 GB" in finding.choice
    text = of_server(facts, [finding], []).as_text()
    assert "\n  remedy    /* From a shell: inorder install. Or: */ CREATE SCHEMA inorder;" in text
    assert "\n  choice    " in text
    (finding,), _ = advised(replace(facts, server=replace(facts.server, inorder="inorder", is_sql_edition=True)))
    assert finding.instead == () and "\n  choice    " not in of_server(facts, [finding], []).as_text()


def test_more_leading_ones_are_advised_for_a_larger_table() -> None:
    """The default, 32 ones, suffices for 30 million rows: see docs/keys.md."""
    facts = recorded_facts()
    (leaf,) = facts.leaves
    for rows, ones in ((3e7, ""), (4e7, "33")):
        leaf.rows = rows
        (finding,), _ = advised(facts)
        assert finding.remedy[-1].endswith(f'"uuid_after_random_nextval"({ones})')


@pytest.mark.parametrize(
    ("seconds", "share", "over", "caution"),
    [
        (600, 0.5, None, "The counters cover 10 min. If rows were loaded in bulk"),
        (600, 0.95, None, "The counters cover 10 min, and 95% of the rows were inserted in this time."),
        (600, 0.95, 600, ""), (90_000, 0.5, None, ""), (90_000, 1.1, None, "100% of the rows"),
        (31 * 86_400, 1.1, None, ""),
    ],
)  # fmt: skip
def test_a_bulk_load_and_a_short_time_are_pointed_out(
    seconds: float, share: float, over: float | None, caution: str
) -> None:
    facts = replace(recorded_facts(), seconds=seconds, over=over)
    (leaf,) = facts.leaves
    leaf.counted |= {"inserted": share * leaf.rows, "deleted": 0.0}
    (finding,), _ = advised(facts)
    text = of_server(facts, [finding], []).as_text()
    assert caution in finding.caution and bool(finding.caution) == bool(caution) == ("\n  caution   " in text)


def test_reading_changes_is_advised_for_a_table_with_updates_or_deletes() -> None:
    facts = recorded_facts()
    poll = Understood((Poll((("", "orders"),), "at", True, False),))
    statements = [Statement("SELECT … ORDER BY at", 100, 1, 0, 0, poll)]
    for name in ("updated", "deleted"):
        (leaf,) = facts.leaves
        leaf.counted |= {"updated": 0.0, "deleted": 0.0} | {name: 1.0}
        report = next(
            candidate
            for candidate in advised(replace(facts, statements=statements))[0]
            if candidate.id == "polling-reader"
        )
        assert "--changes --feed reader" in report.remedy[-1] and f"Rows are {name}" in report.risk
