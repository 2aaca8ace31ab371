"""The claims of the studies in docs/results. A verdict says no more than the measured figure can show."""

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from inorder.lab.analysis.stats import Estimate
from inorder.lab.report.published import STUDIES, cells_of

from claims import Answer, Claim, above, at_least, below, kept, near, none
from results_page import read_results
from study_claims import CLAIMS
from study_pages import DISTURBED, PLACES, answers

RESULTS = read_results()
FIGURE = re.compile(r"\d")
PRINTED = {  # figures of claims as printed in the study itself
    "P1 6, in char(32)", "P1 9, in char(32)", "P1 6,072", "P3 1", "P3 under 0.30", "P3 0.20", "P3 3", "P3 0.50",
    "P3 over 2", "P4 7.8", "P4 1.5", "P4 1", "P4 4–5", "P4 1.1–1.2", "P5 0", "P5 1",
}  # fmt: skip
NOT_ITS_WORDS = {"P3": {"more", "less"}}


def claim(judge: Callable[[Estimate], Answer], **more: bool) -> Claim:
    return Claim("P0", "", "1", "", lambda _result: None, judge, **more)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    ("judge", "against"),
    [(above(2), 0.5), (below(0.5), 2.0), (near, 3.0), (kept, 0.5), (none, 7.0), (at_least(90), 10.0)],
)
def test_a_claim_can_only_fail_under_the_conditions_of_the_study(
    judge: Callable[[Estimate], Answer], against: float, counted: bool
) -> None:
    rounds = 1 if counted else 6
    end = None if counted else against
    estimate = Estimate(against, end, end, rounds)
    assert claim(judge, counted=counted).answer(estimate) is Answer.OPEN
    assert claim(judge, counted=counted, as_there=True).answer(estimate) is Answer.NOT


def test_too_few_rounds_of_times_show_no_difference() -> None:
    estimate = Estimate(3.0, 2.9, 3.1, 3)
    assert claim(above(2), as_there=True).answer(estimate) is Answer.OPEN
    assert claim(above(2), counted=True).answer(estimate) is Answer.HOLDS


def test_a_claim_that_does_not_hold_was_measured_under_the_conditions_of_the_study() -> None:
    judged = [(claim, answer) for claim in CLAIMS for _, answer in answers(claim, RESULTS).values()]
    assert len(judged) > 75
    assert {claim.says for claim, answer in judged if answer is Answer.NOT and not claim.as_there} == set()


def test_figures_that_a_study_does_not_print_are_marked() -> None:
    """Each figure of a claim is either printed in the study or marked as computed."""
    for claim_made in CLAIMS:
        text = f"{claim_made.study} {claim_made.published}"
        assert not FIGURE.search(claim_made.published) or ("computed" in text) != (text in PRINTED), text
    assert {f"{claim_made.study} {claim_made.published}" for claim_made in CLAIMS} >= PRINTED


def test_a_ratio_computed_from_two_rates_is_marked() -> None:
    """If a cell has a ratio and its detail has two figures, the ratio was computed from them."""
    for study, about in STUDIES.items():
        for table in about["tables"]:
            for cell in cells_of(study, table):
                of_rates = cell.unit == "ratio" and re.search(r"\d.* and .*\d", cell.detail)
                assert not of_rates or cell.how == "computed", (study, cell.kind, cell.detail)


def test_claims_have_no_words_that_the_study_does_not_use() -> None:
    """Only for blocks of 256 does P3 report which kind has more blocks or more WAL."""
    for study, words in NOT_ITS_WORDS.items():
        published = {claim_made.published for claim_made in CLAIMS if claim_made.study == study}
        published |= {str(cell.value) for table in STUDIES[study]["tables"] for cell in cells_of(study, table)}
        assert published.isdisjoint(words)


def test_disturbed_runs_answer_claims_by_counters_alone() -> None:
    names = {f"{claim_made.run}-{place}" for claim_made in CLAIMS if not claim_made.counted for place in PLACES}
    assert set(DISTURBED) <= set(RESULTS) and names.isdisjoint(DISTURBED)


def test_the_same_refers_to_the_claim_above() -> None:
    """A claim that refers to the claim above it must be in the same table.

    Claims without a figure are in a separate table.
    """
    for before, claim_made in pairwise(CLAIMS):
        refers = re.search(r"\b[Tt]he same\b|^Of as many|likewise", claim_made.says)
        assert not refers or (before.study, before.has_figure) == (claim_made.study, claim_made.has_figure), (
            claim_made.says
        )
