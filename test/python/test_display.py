"""The progress display of a running experiment."""

import io

import pytest
from inorder.commands.run import Display
from rich.console import Console, RenderableType


def drawn(terminal: bool) -> str:
    figures: list[str] = []

    def so_far() -> RenderableType:
        return " ".join(figures)

    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with Display("starting", so_far, console) as display:
        display.total(2)
        display.step("first")
        figures.append("so far so good")
        display.done("found 41")
        display.step("second")
        display.done()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_figures_and_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    text = drawn(terminal=True)
    assert "so far so good" in text and "second" in text and "2/2" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


@pytest.mark.parametrize(("term", "terminal"), [("xterm", False), ("dumb", False), ("dumb", True)])
def test_without_a_capable_terminal_plain_lines_are_printed(
    monkeypatch: pytest.MonkeyPatch, term: str, terminal: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    assert drawn(terminal=terminal) == "first -> found 41\n"
