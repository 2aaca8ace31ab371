"""What the user sees while something runs: figures so far and a bar on a terminal, plain lines elsewhere. On stderr."""

from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from inorder.lab.turn import Progress


class Display(Progress):
    """``figures`` is asked anew after every step for what is known by then."""

    def __init__(self, title: str, figures: Callable[[], RenderableType], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.figures = figures
        self.text = title
        # A dumb terminal cannot move its cursor: it gets lines.
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
        """The step ended: the figures are drawn anew, or, without a terminal, this is a line."""
        self.bar.advance(self.task)
        if self.draws:
            self.live.update(Group(self.figures(), self.bar))
        elif text:
            self.console.print(f"{self.text} -> {text}", highlight=False, markup=False)
