"""What an operator installs: tail, count and feeds need click and the driver, and their help not even that."""

import subprocess
import sys

import pytest

PACKAGES = ("numpy", "scipy", "jinja2", "rich", "msgspec")
LAB = (*PACKAGES, "inorder.lab", "inorder.generate")

LOADED = """
import sys
sys.argv = ["inorder", {command!r}, "--help"]
from inorder.cli import main
try:
    main()
except SystemExit:
    pass
if {driver}:
    import inorder.tail.run, inorder.count.counter, inorder.feeds.reading, inorder.connection.reconnect
print(*sys.modules, file=sys.stderr)
"""


def loaded(command: str, driver: bool) -> set[str]:
    program = LOADED.format(command=command, driver=driver)
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "Usage: " in done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize("command", ["tail", "count", "feeds"])
def test_the_help_loads_neither_the_lab_nor_the_driver(command: str) -> None:
    modules = loaded(command, driver=False)
    assert not modules & {*LAB, "psycopg"} and "click" in modules


def test_a_run_loads_the_driver_and_nothing_of_the_lab() -> None:
    modules = loaded("tail", driver=True)
    assert not modules & set(LAB) and "psycopg" in modules


def test_a_choice_needs_no_package_of_the_laboratory() -> None:
    assert not loaded("choose", driver=False) & {*PACKAGES, "psycopg"}


def test_advice_needs_no_package_of_the_laboratory() -> None:
    program = "import sys, inorder.advise.facts, inorder.advise.findings, inorder.advise.report; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert not {*PACKAGES} & set(done.stdout.split())
    assert not loaded("advise", driver=False) & {*PACKAGES, "psycopg"}


def test_without_the_laboratory_its_commands_say_what_is_missing() -> None:
    program = (
        "import sys; sys.modules['numpy'] = sys.modules['rich'] = None; from inorder.cli import main; "
        "sys.argv = ['inorder', *sys.argv[1:]]; main()"
    )
    for command, extra in ((["demo"], "demo"), (["lab", "run", "insert"], "lab"), (["generate"], "lab")):
        done = subprocess.run(
            [sys.executable, "-c", program, *command, "--help"], check=False, capture_output=True, text=True
        )
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert " needs " in done.stderr and f"[{extra}]'" in done.stderr.partition("pip install")[2]
    for arguments, told in ((["tail", "--help"], "--position"), (["--help"], "Not installed: pip install")):
        done = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
        assert told in done.stdout
