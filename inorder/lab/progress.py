"""What an experiment tells while it runs; who draws it is not its business."""

from typing import Protocol


class Progress(Protocol):
    """Told of each step of an experiment."""

    def total(self, steps: int) -> None:
        """How many steps there will be."""

    def step(self, text: str) -> None:
        """A step begins."""

    def done(self, text: str = "") -> None:
        """The step ended; text says what it found."""
