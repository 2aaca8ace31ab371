"""What the user sees while something runs: a live bar on a terminal, plain lines elsewhere. On stderr."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Display:
    """Draws the progress of an experiment; a ``lab.progress.Progress``."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.text = title
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task(title, total=None)

    def __enter__(self) -> "Display":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def total(self, steps: int) -> None:
        """How many steps there will be."""
        self.bar.update(self.task, total=steps)

    def step(self, text: str) -> None:
        """A step begins, or tells how it goes."""
        self.text = text
        self.bar.update(self.task, description=text)

    def done(self, text: str = "") -> None:
        """The step ended; without a terminal this is a line."""
        self.bar.advance(self.task)
        if text and not self.console.is_terminal:
            self.console.print(f"{self.text} -> {text}", highlight=False)
