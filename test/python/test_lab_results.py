"""The runs in docs/results: the files are readable, have no private names, and match the pages generated from them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inorder.commands.catalogue import report_of
from inorder.lab.experiments import all_experiments
from inorder.lab.plan.setting import settings_of
from inorder.lab.report.formats import as_markdown
from inorder.lab.report.published import STUDIES
from inorder.lab.results.journal import load_all
from inorder.lab.results.result import Result

import pictures
import studies
from results_page import ENDED_EARLY, ENDING, NAME, PAGE, RESULTS, command, page, read_results
from sources import ROOT
from study_claims import CLAIMS
from study_pages import PLACES, WITH_PAGE, run_link, there
from study_pages import page as study_page
from study_tables import MISSING, distinct, main_tables, run_of
from tool import inorder

DOCS = RESULTS.parent
FILES = sorted(RESULTS.glob(f"*{ENDING}"))
RESULT = read_results()
OTHER = {"generators", "noise", "uuidv7", "uuidv7-bulk", "waves"}  # runs that are not part of a study
MOST_EACH, MOST = 10**6, 4 * 10**6  # maximum size in bytes of one file, and of all files
MACHINE = {"cpu", "cores", "memory_bytes", "kernel", "filesystem", "commit"}
SCALED = (("apply", 0), ("read", 1))  # a sum over rows, and a copy of rows
PRIVATE = re.compile(r"(^|[\s'\"=:(])(/[\w.-]|~)|@|://")


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from texts([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for element in value:
            yield from texts(element)


def test_the_page_has_the_figures_of_its_files() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert page(written, RESULT) == written
    assert len(RESULT) >= 10


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", [*pictures.PICTURES, *pictures.CHARTS])
def test_each_picture_agrees_with_its_runs(name: str, theme: str) -> None:
    written = (pictures.IMAGES / f"{name}-{theme}.svg").read_text(encoding="utf-8")
    shown = re.compile(r">([^<>]+)<| fill=\"([^\"]+)\"")
    picture = pictures.picture(name, RESULT, theme)
    assert shown.findall(picture) == shown.findall(written), "run python script/docs/results_page.py"
    assert "var(" not in written and "url(" not in written and "href" not in written
    other = (pictures.IMAGES / f"{name}-{'dark' if theme == 'light' else 'light'}.svg").read_text(encoding="utf-8")
    assert shown.findall(other) != shown.findall(written)


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_of_a_study_has_the_figures_of_the_runs(study: str) -> None:
    written = (RESULTS / f"{study.lower()}.md").read_text(encoding="utf-8")
    assert study_page(study, RESULT) == written, "run python script/docs/results_page.py"


@pytest.mark.parametrize("study", STUDIES)
def test_the_main_table_marks_what_a_study_does_not_print(study: str) -> None:
    written = (RESULTS / f"{study.lower()}.md").read_text(encoding="utf-8").partition("## Claims of the study")[0]
    for cell in (cell for study_table in main_tables(study) for cell in distinct(study, study_table)):
        assert cell.how == "printed" or f" {there(cell)}, {cell.how}" in written, cell


def test_a_row_of_the_main_table_shows_the_fullest_run_that_has_it() -> None:
    row = {"here": 1.0}
    runs: dict[str, dict[Any, Any]] = {
        "p3-blocks-18": {("random", "", ""): row, ("blocks", "", ""): row},
        "p3-18": {("random", size, ""): row for size in ("small", "medium", "large")},
    }
    assert [run_of(label, runs, RESULT) for label in ("random", "blocks", "none")] == ["p3-18", "p3-blocks-18", ""]


def test_each_missing_figure_has_a_run_in_studies() -> None:
    """The page of study P1 says that script/studies can produce the missing figures."""
    commands = [run.command for run in studies.runs() if run.study == "P1"]
    page_text = (RESULTS / "p1.md").read_text(encoding="utf-8")
    heads = next(line for line in page_text.splitlines() if line.startswith("| TPS with a primary key |")).split(" | ")
    empty = f"**{MISSING}**"
    rows = [line.split(" | ") for line in page_text.splitlines() if empty in line]
    missing = {head.split(" M ")[0] for row in rows for head, cell in zip(heads, row, strict=True) if empty in cell}
    assert [size for size in missing if not any(f"--rows {size}M" in command for command in commands)] == []


def test_the_report_agrees_with_the_pages_of_the_runs(tmp_path: Path) -> None:
    done = inorder("lab", "report", *map(str, FILES), "--format", "markdown", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    written = PAGE.read_text(encoding="utf-8").splitlines()
    for name, result in RESULT.items():
        assert f"# {name}{ENDING}: {result.experiment}\n" in done.stdout
        (row,) = (line for line in written if line.startswith(f"| {run_link(name)} |"))
        assert (ENDED_EARLY in row) == (not result.complete)
        page_text = (RESULTS / f"{name}.md").read_text(encoding="utf-8") if name in WITH_PAGE else done.stdout
        for line in figures_of(result):
            assert line in done.stdout and line in page_text, name
    (file,) = (path for path in FILES if path.name.startswith("reader-18"))
    inorder("lab", "report", str(file), "--html", "page.html", folder=tmp_path)
    assert load_all(tmp_path / "page.html") == [RESULT["reader-18"]]


def figures_of(result: Result) -> list[str]:
    """Return the lines of the main tables, or of the first table if there is no main table."""
    sections = report_of(result).sections(result)
    return [line for section in [candidate for candidate in sections if candidate.main] or sections[:1]
            for line in as_markdown([section]).splitlines() if line.startswith("| ")]  # fmt: skip


def test_a_run_has_a_page_if_another_page_cites_it() -> None:
    """The study pages and the list of runs cite every run, so they do not count."""
    lists = {PAGE, *(RESULTS / f"{name.lower()}.md" for name in (*STUDIES, *RESULT))}
    pages = {ROOT / "README.md", *DOCS.rglob("*.md")} - lists
    cited = {name for page in pages for name in re.findall(r"[/(]([\w-]+)\.md", page.read_text(encoding="utf-8"))}
    assert {name for name in RESULT if (RESULTS / f"{name}.md").exists()} == WITH_PAGE == cited & RESULT.keys()


def test_the_command_of_a_run_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is run with the original number of cores, which determines the default number of threads."""
    for name, result in RESULT.items():
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=result.machine["cores"]: range(cores))
        _, _, _, experiment, *words = shlex.split(command(result))
        kind = all_experiments()[experiment]
        options = {setting.option(field): (field, setting) for field, setting in settings_of(kind.Plan).items()}
        settings = {}
        for option, value in zip(words[::2], words[1::2], strict=True):
            field, setting = options[option]
            settings[field] = setting.type.read(value, option)
        assert kind.Plan.of_size("", settings) == kind.plan_in(result), name


def test_a_run_has_no_private_names() -> None:
    for name, result in RESULT.items():
        head = [result.plan, result.server, result.machine, result.notes, result.method, result.inorder]
        assert [text for text in texts(head) if PRIVATE.search(text)] == [], name
        assert set(result.machine) == MACHINE and set(result.server) == {"version", "origin", "settings"}, name


def test_the_files_are_small() -> None:
    sizes = [path.stat().st_size for path in RESULTS.iterdir()]
    assert max(sizes) < MOST_EACH and sum(sizes) < MOST


def test_each_run_answers_a_claim_or_is_listed() -> None:
    names = [NAME.fullmatch(path.name) for path in FILES]
    runs = {match["run"] for match in names if match}
    assert {claim.run for claim in CLAIMS} == runs - OTHER and runs >= OTHER
    assert {match["place"] for match in names if match} == set(PLACES) and all(names)
    assert len({(claim.study, claim.says) for claim in CLAIMS}) == len(CLAIMS)


def cells(run: str, first: str, place: int = 0) -> list[str]:
    rows = [line for line in (RESULTS / f"{run}.md").read_text().splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in rows[place].removeprefix(f"| {first} |").split("|")]


def test_the_page_of_scaling_shows_figures_of_its_runs() -> None:
    uuid = cells("feed-18", "uuid")
    sums, copies = (float(cells("feed-18", f"feed_{way}, uuid", place)[0]) * 4 for way, place in SCALED)
    figures = [f"{cells('writers-18', 'one table | 16', place)[0]} rows/s" for place in (0, 1)]
    figures += [f"{uuid[1]}; {uuid[3]}", f"{float(uuid[2]):#.2g} µs", f"{sums:#.2g} µs", f"{copies:#.2g} µs"]
    shown = re.findall(r"^\|[^|]*\| ([^|]*) \| \[\w+-18\]", (RESULTS / "scale-18.md").read_text(), re.M)
    assert shown == figures
