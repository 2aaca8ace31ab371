"""Write docs/results/README.md, the report of each run and the picture of README, from the runs there.

``python test/python/results_page.py``
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from inorder.commands.show import markdown, named
from inorder.lab import journal
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.experiment import Experiment
from inorder.lab.experiments import all_experiments
from inorder.lab.report.catalogue import report_of
from inorder.lab.report.formats import as_markdown
from inorder.lab.results import Result
from inorder.lab.setting import settings_of

import pictures
from claims import Answer, Claim, overall
from study_claims import CLAIMS, STUDIES

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
PAGE = RESULTS / "README.md"
ENDING = ".jsonl.gz"
PLACES = {"18": "PostgreSQL 18", "15": "PostgreSQL 15", "18-iops": "18, throttled"}
NAME = re.compile(rf"(?P<run>.+?)-(?P<place>{'|'.join(sorted(PLACES, key=len, reverse=True))}){re.escape(ENDING)}")
MODEL_RUN = "insert-18"  # whose largest table stands beside the model

NOTED = {Answer.IN_PART: ": in part", Answer.NOT: ": not", Answer.OPEN: ": undecided"}  # in the cell of a run

ENDED_EARLY = ", ended early"  # a run that was interrupted, and what it measured before

Results = dict[str, Result]  # by the name of the file, without its ending


def read_results() -> Results:
    return {path.name.removesuffix(ENDING): journal.load(path) for path in sorted(RESULTS.glob(f"*{ENDING}"))}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def shown(found: Estimate) -> str:
    """A figure with its interval, or how often it was measured if that is too seldom for one.

    >>> shown(Estimate(0.5, 0.4, 0.6, 6)), shown(Estimate(1234.0, 1000.0, 1300.0, 3)), shown(Estimate(7, None, None, 1))
    ('0.50 [0.40–0.60]', '1,234, 3 rounds', '7.00')
    """
    digits = next((count for count, least in enumerate((100, 10, 0.1)) if found.median >= least or not found.median), 3)
    if found.low is None or found.high is None:
        return f"{found.median:,.{digits}f}"
    if found.rounds < LEAST_ROUNDS:
        return f"{found.median:,.{digits}f}, {found.rounds} rounds"
    return f"{found.median:,.{digits}f} [{found.low:,.{digits}f}–{found.high:,.{digits}f}]"


def claim_row(claim: Claim, results: Results) -> list[str]:
    cells, answers = [], []
    for place in PLACES:
        result = results.get(f"{claim.run}-{place}")
        found = claim.figure(result) if result else None
        if found is None:
            cells.append("")
            continue
        answer = claim.answer(found)
        answers.append(answer)
        cells.append(shown(found) + NOTED.get(answer, ""))
    return [claim.says, claim.published, *cells, f"**{overall(answers).value}**", f"`{claim.run}`"]


def claims_part(results: Results) -> Iterator[str]:
    for study, claims in groupby(CLAIMS, key=lambda claim: claim.study):
        heads = ["claim", "published", *PLACES.values(), "answer", "run"]
        yield f"### {study}: {STUDIES[study]}"
        yield table(heads, [claim_row(claim, results) for claim in claims])


def model_part(results: Results) -> Iterator[str]:
    """The model's table of the largest size."""
    result = results[MODEL_RUN]
    largest = max(result.plan["rows"])
    yield as_markdown([one for one in report_of(result).sections(result) if one.name == f"model_{largest}"])
    yield f"`{MODEL_RUN}`: {inserts_text(result, largest)} between two checkpoints."


def inserts_text(result: Result, rows: int) -> str:
    inserts = {round(run.metrics["inserts"]) for run in result.select("insert", rows=rows)}
    return f"{min(inserts):,} rows" if len(inserts) == 1 else f"{min(inserts):,} to {max(inserts):,} rows"


def command(result: Result) -> str:
    """What was called: every option whose value is not that of the usual run."""
    kind: type[Experiment[Any]] = all_experiments()[result.experiment]
    plan, usual = kind.plan_in(result), kind.Plan()
    options = [
        f"{one.option(name)} {one.type.show(getattr(plan, name))}" for name, one in settings_of(kind.Plan).items()
        if one.asked and getattr(plan, name) != getattr(usual, name)
    ]  # fmt: skip
    return " ".join([f"inorder lab run {result.experiment}", *options])


def runs_part(results: Results) -> Iterator[str]:
    """Each run: its report, its file, its command."""
    rows = [[f"[{name}]({name}.md)", f"[file]({name}{ENDING})", result.server["version"], f"`{command(result)}`",
             result.method, result.created.partition("T")[0] + ("" if result.complete else ENDED_EARLY)]
            for name, result in results.items()]  # fmt: skip
    yield "## The runs"
    yield f"`inorder lab report docs/results/NAME{ENDING} --html PAGE` writes the page of one, with its pictures."
    yield table(["report", "raw", "server", "command", "method", "day"], rows)


def report(name: str, result: Result) -> str:
    head = f"`{command(result)}`, PostgreSQL {result.server['version']}, {result.created.partition('T')[0]}."
    body = markdown(named(Path(name + ENDING), result), several=False)
    return f"# {name}\n\n{head} [All runs](README.md).\n\n{body}\n"


def machine_text(results: Results) -> str:
    found = {
        (one["cpu"], one["cores"], round(one["memory_bytes"] / 2**30), one["filesystem"])
        for one in (result.machine for result in results.values())
    }
    return "; ".join(f"{cpu}, {cores} cores, {memory} GB, {system}" for cpu, cores, memory, system in sorted(found))


def summary(results: Results) -> str:
    """How many claims got which answer, by study."""
    rows = []
    for study, claims in groupby(CLAIMS, key=lambda claim: claim.study):
        answers = [claim_row(claim, results)[-2].strip("*") for claim in claims]
        rows.append([study, *(str(answers.count(answer.value)) for answer in Answer)])
    return table(["study", *(answer.value for answer in Answer)], rows)


def page(text: str, results: Results) -> str:
    """The page with its generated parts as the results have them: what is between <!-- NAME --> and <!-- /NAME -->."""
    parts = {
        "machine": machine_text(results), "summary": summary(results), "claims": "\n\n".join(claims_part(results)),
        "model": "\n\n".join(model_part(results)), "runs": "\n\n".join(runs_part(results)),
    }  # fmt: skip
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"{PAGE.name} has no {begin} … {end}"
        text = f"{before}{begin}\n{part}\n{end}{after}"
    return text


if __name__ == "__main__":
    everything = read_results()
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), everything), encoding="utf-8")
    pictures.write(everything[pictures.RUN])
    for each, its_result in everything.items():
        (RESULTS / f"{each}.md").write_text(report(each, its_result), encoding="utf-8")
