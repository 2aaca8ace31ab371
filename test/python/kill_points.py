"""Run inorder tail in forks of one process, and kill each run before one of its system calls.

The first run is killed before the first call, the next run before a later call, and so on. After a kill, the tool runs
again, is killed at a later point, and then runs to its end. If the output is a file, the tool also runs to its end from
the state after the first kill. The arguments are the kind of standard output (file, pipe or none), the distance between
two points, and the arguments of the tool, in which {n} is the number of the point.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

from inorder.cli import cli, main

from waiting import PATIENCE

CALLS = {"close", "fchmod", "flock", "fork_exec", "fsync", "ftruncate", "link", "lseek", "open", "replace", "rename",
         "setxattr", "unlink", "write"}  # fmt: skip
PLACES = ("/inorder/tail/", "/inorder/files.py", "/pathlib", "/tempfile.py", "/subprocess.py")
IN_USE = 1
PAUSE = 0.01  # seconds


def killing_before(point: int) -> Callable[[FrameType, str, object], None]:
    left = point

    def profile(frame: FrameType, event: str, called: object) -> None:
        nonlocal left
        if event == "c_call" and getattr(called, "__name__", "") in CALLS:
            left -= any(place in frame.f_code.co_filename for place in PLACES)
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return profile


def tool(arguments: list[str], output: int, point: int | None) -> NoReturn:
    os.dup2(output, 1)
    sys.argv = ["inorder", *arguments]
    if point is not None:
        sys.setprofile(killing_before(point))
    code: object = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    finally:
        os._exit(code if isinstance(code, int) else 1)


def ran(kind: str, name: str, arguments: list[str], point: int | None) -> int:
    """Run the tool once, and return its exit code, which is negative for a signal.

    If the output is a pipe, it is copied to a new file in each run.
    """
    reader = None
    if kind == "file":
        output = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    elif kind == "none":
        output = os.open(os.devnull, os.O_WRONLY)
    else:
        reading, output = os.pipe()
        with open(f"{name}.{time.monotonic_ns()}", "wb") as file:
            reader = subprocess.Popen(["cat"], stdin=reading, stdout=file)
        os.close(reading)
    child = os.fork()
    if child == 0:
        tool(arguments, output, point)
    os.close(output)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if reader:
        reader.wait()
    return code


def known_output(position: str) -> bytes | None:
    """Return the content of the position file if it records how much output was delivered, otherwise None."""
    content = Path(position).read_bytes() if Path(position).exists() else b""
    return content if content and json.loads(content).get("output") else None


def points(kind: str, every: int, arguments: list[str]) -> int:
    assert cli.commands[arguments[0]]  # load the command once, not in each fork
    # Load these modules once, not in each fork. Loading the driver takes longer than everything that is tested here.
    for late in ("importlib.readers", "inorder.tail.run"):
        import_module(late)
    chance = random.Random(1)
    for number in range(1, 10_000, every):
        named = [argument.replace("{n}", str(number)) for argument in arguments]
        name = f"out{number}"
        if (code := ran(kind, name, named, number)) != -signal.SIGKILL:
            assert code == 0, code
            return number
        earlier = known_output(f"p{number}") if kind == "file" else None
        code = ran(kind, name, named, chance.randint(1, 60))
        assert code in (0, -signal.SIGKILL, IN_USE), code
        deadline = time.monotonic() + PATIENCE
        while (code := ran(kind, name, named, None)) == IN_USE and time.monotonic() < deadline:
            time.sleep(PAUSE)  # a child of the killed run may still have the lock
        assert code == 0, code
        if earlier:  # restore the file as a crash of the host would leave it
            Path(f"p{number}").write_bytes(earlier)
            assert (code := ran(kind, name, named, None)) == 0, code
    raise AssertionError


if __name__ == "__main__":
    print(points(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
