"""Write docs/results/README.md, the pages of the studies and of some runs, and the pictures of the README.

``python script/docs/results_page.py`` writes them from the runs in docs/results.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from inorder.commands.catalogue import Labelled, report_of
from inorder.commands.show import markdown
from inorder.lab.experiments import all_experiments
from inorder.lab.plan.setting import settings_of
from inorder.lab.report.formats import as_markdown
from inorder.lab.report.html import load_range
from inorder.lab.report.published import STUDIES
from inorder.lab.results import journal
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment

import pictures
import study_pages
from claims import Answer
from study_claims import CLAIMS
from study_pages import DISTURBED, PLACES, WITH_PAGE, Results, run_link

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
PAGE = RESULTS / "README.md"
ENDING = ".jsonl.gz"
NAME = re.compile(rf"(?P<run>.+?)-(?P<place>{'|'.join(sorted(PLACES, key=len, reverse=True))}){re.escape(ENDING)}")
MODEL_RUN = "insert-18"  # the run whose largest table is compared with the model

ENDED_EARLY = ", ended early"  # added to the method of an interrupted run


def read_results() -> dict[str, Result]:
    return {path.name.removesuffix(ENDING): journal.load(path) for path in sorted(RESULTS.glob(f"*{ENDING}"))}


def model_part(results: Results) -> Iterator[str]:
    """Yield the table that compares the model with the largest measured table."""
    result = results[MODEL_RUN]
    largest = max(result.plan["rows"])
    yield as_markdown([section for section in report_of(result).sections(result) if section.name == f"model_{largest}"])
    yield f"`{MODEL_RUN}`: {inserts_text(result, largest)} between two checkpoints."


def inserts_text(result: Result, rows: int) -> str:
    inserts = {round(run.metrics["inserts"]) for run in result.select("insert", rows=rows)}
    return f"{min(inserts):,} rows" if len(inserts) == 1 else f"{min(inserts):,} to {max(inserts):,} rows"


def command(result: Result) -> str:
    """Return the command line of a run, with each option that differs from its default."""
    kind: type[Experiment[Any]] = all_experiments()[result.experiment]
    plan, usual = kind.plan_in(result), kind.Plan()
    options = [
        f"{setting.option(name)} {setting.type.show(getattr(plan, name))}"
        for name, setting in settings_of(kind.Plan).items()
        if setting.asked and getattr(plan, name) != getattr(usual, name)
    ]
    return " ".join([f"inorder lab run {result.experiment}", *options])


def runs_part(results: Results) -> Iterator[str]:
    """Yield the list of runs with their commands. A run that another page cites has a link to its report."""
    rows = [
        [run_link(name), f"`{command(result).removeprefix('inorder lab run ')}`",
         result.method + ("" if result.complete else ENDED_EARLY), load_range(result), DISTURBED.get(name, "")]
        for name, result in results.items()
    ]  # fmt: skip
    yield "## The runs"
    yield (
        f"The raw data of a run are in NAME{ENDING}: `inorder lab report NAME{ENDING}` prints its tables, and with "
        "`--html PAGE` writes them as a page with pictures. Each command begins with `inorder lab run`."
    )
    yield study_pages.table(["run", "command", "method", "load", "remark"], rows)


def report(name: str, result: Result) -> str:
    head = f"`{command(result)}`, PostgreSQL {result.server['version']}, {result.created.partition('T')[0]}."
    body = markdown(Labelled(name + ENDING, result), several=False)
    return "\n\n".join([f"# {name}", f"{head} [All runs](README.md).", body]) + "\n"


def machine_text(results: Results) -> str:
    machines = {
        (machine["cpu"], machine["cores"], round(machine["memory_bytes"] / 2**30), machine["filesystem"])
        for machine in (result.machine for result in results.values())
    }
    return "; ".join(f"{cpu}, {cores} cores, {memory} GB, {system}" for cpu, cores, memory, system in sorted(machines))


def summary(results: Results) -> str:
    """Return a table with the number of claims by study and answer. Our own claims are counted separately."""
    rows = []
    for study, group in groupby(CLAIMS, key=lambda claim: claim.study):
        claims = list(group)
        of_study = [study_pages.answered(claim, results) for claim in claims if claim.has_figure]
        answers = [study_pages.answered(claim, results) for claim in claims if not claim.has_figure]
        link = f"[{study}]({study.lower()}.md)"
        held = f"{answers.count(Answer.HOLDS)} of {len(answers)}"
        rows.append(
            [
                link,
                f"{STUDIES[study]['author']}: {STUDIES[study]['title']}",
                *(str(of_study.count(answer)) for answer in Answer),
                held,
            ]
        )
    heads = ["study", "title", *(answer.value for answer in Answer), "our own claims that hold"]
    return study_pages.table(heads, rows)


def page(text: str, results: Results) -> str:
    parts = {
        "machine": machine_text(results), "summary": summary(results),
        "model": "\n\n".join(model_part(results)), "runs": "\n\n".join(runs_part(results)),
    }  # fmt: skip
    return study_pages.with_parts(text, parts)


if __name__ == "__main__":
    all_results = read_results()
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), all_results), encoding="utf-8")
    pictures.write(all_results)
    for study_name in STUDIES:
        (RESULTS / f"{study_name.lower()}.md").write_text(study_pages.page(study_name, all_results), encoding="utf-8")
    for run_name in WITH_PAGE:
        (RESULTS / f"{run_name}.md").write_text(report(run_name, all_results[run_name]), encoding="utf-8")
