"""Run experiments: open a server, run them, and show the results."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from inorder.commands.catalogue import Labelled, distinct, report_of
from inorder.commands.options import new_file, plan_given, size_given
from inorder.commands.show import show
from inorder.errors import InputError
from inorder.files import only_writer, require_writable
from inorder.lab.plan.turn import Progress
from inorder.lab.report import html
from inorder.lab.report.html import memory_note
from inorder.lab.results.journal import usual_name
from inorder.lab.run.experiment import Experiment
from inorder.lab.run.hosts import host_for
from inorder.lab.run.runner import WholeRun


class Display(Progress):
    """The progress of a run. ``figures`` is called after every step, and returns tables of the results so far."""

    def __init__(self, title: str, figures: Callable[[], RenderableType], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.figures = figures
        self.text = title
        # A dumb terminal cannot move its cursor, and gets lines instead.
        self.draws = self.console.is_terminal and not self.console.is_dumb_terminal
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Bar(*columns, console=self.console)
        self.task = self.bar.add_task(title, total=None)
        self.live = Live(self.bar, console=self.console, refresh_per_second=4, transient=True)

    def __enter__(self) -> "Display":
        if self.draws:
            self.live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.draws:
            self.live.stop()

    def total(self, steps: int) -> None:
        self.bar.update(self.task, total=steps)

    def step(self, text: str) -> None:
        self.text = text
        self.bar.update(self.task, description=text)

    def done(self, text: str = "") -> None:
        self.bar.advance(self.task)
        if self.draws:
            self.live.update(Group(self.figures(), self.bar))
        elif text:
            self.console.print(f"{self.text} -> {text}", highlight=False, markup=False)


def run_experiment(
    kind: type[Experiment[Any]], quick: bool, full: bool, bindir: Path | None, dsn: str | None, out: Path | None,
    page: Path | None, output: str, **settings: Any,
) -> None:  # fmt: skip
    plan = plan_given(kind.Plan, size_given(quick, full), dsn is not None, settings)
    completed = kind.completed(plan, dsn is not None)
    file = new_file(out, usual_name(kind.name))
    with writing(file, page):
        host = host_for(kind, dsn, bindir)
        plan, result = host.begin(kind, completed)
        run_and_show(WholeRun(kind, plan, host, result, file), page, output)


def run_and_show(whole: WholeRun, page: Path | None, output: str, before: Sequence[Labelled] = ()) -> None:
    """Run an experiment, then show and save its results, even after an error. Call this within ``writing()``.

    On a page, the results in ``before`` come first.
    """
    host, result, out = whole.host, whole.result, whole.file
    report, aside = report_of(result), Console(stderr=True)
    note = f" · {memory_note(result)}" if "memory_bytes" in result.plan else ""
    aside.print(f"{host.name}, {host.whose}{note}", highlight=False, markup=False)
    try:
        with Display(f"starting {host.name}", lambda: Group(*report.tables(result))) as display:
            whole.run(display)
    finally:
        if any(run.step != "fill" for run in result.runs):
            show([Labelled(out.name, result)], output, None)
            if page:
                html.write(distinct([*before, Labelled(out.name, result)]), page)
            written = [str(path) for path in (out, page) if path and path.exists()]
            aside.print(f"Written: {', '.join(written) or 'nothing'}", highlight=False, markup=False)


@contextmanager
def writing(out: Path, page: Path | None) -> Iterator[None]:
    """Require that both files are writable, and that no other run writes the result at the same time."""
    if page and page.resolve() == out.resolve():
        raise InputError(f"--out and --html are the same file: {page}")
    with only_writer(out):
        for path in filter(None, (out, page)):
            require_writable(path)
        yield
