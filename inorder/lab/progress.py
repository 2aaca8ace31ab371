"""The progress that an experiment reports while it runs, however it is shown."""


class Progress:
    """Receives each step of an experiment, and shows nothing."""

    def total(self, steps: int) -> None:
        """How many steps there will be."""

    def step(self, text: str) -> None:
        """A step begins."""

    def done(self, text: str = "") -> None:
        """The step ended; text says what it found."""
