"""The certainty that the number of measured rounds allows, in words."""

from collections import Counter

from inorder.lab.analysis.stats import LEAST_ROUNDS
from inorder.lab.results import Result


def how_sure(result: Result) -> str:
    if "rounds" not in result.plan or not result.runs:
        return ""
    counts = Counter((run.step, run.kind, run.rows) for run in result.runs)
    done = min((count for count in counts.values() if count > 1), default=1)  # sizes, for one, are taken once
    if done == 1:
        return "One round: counts are exact, but no difference in time is claimed from one sample."
    if done < LEAST_ROUNDS:
        return f"{done} rounds: brackets hold their range; no difference in time is claimed below {LEAST_ROUNDS}."
    return f"{done} rounds: brackets hold an interval of 95 % or more for the median."
