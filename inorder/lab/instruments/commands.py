"""A command as it is run from a shell, its output in a file: how long it takes, by the clock and in CPU time."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from inorder.errors import InorderError


def timed_command(command: Sequence[str], environment: Mapping[str, str], output: Path) -> dict[str, float]:
    """Wall-clock and CPU seconds of a command that appends to a file; it never outlives this call.

    >>> found = timed_command(["echo", "row"], os.environ, Path("/dev/null"))
    >>> sorted(found), found["seconds"] > 0
    (['client_cpu_seconds', 'seconds'], True)
    """
    started = time.perf_counter()
    with output.open("ab") as file, subprocess.Popen(
        list(command), env=dict(environment), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE
    ) as process:  # fmt: skip
        try:
            assert process.stderr
            said = process.stderr.read()  # until it ends: nobody else has it
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            process.kill()
            raise
    seconds = time.perf_counter() - started
    if process.returncode:
        words = said.decode(errors="replace").strip()
        raise InorderError(f"{Path(command[0]).name} failed with exit code {process.returncode}: {words}")
    return {"seconds": seconds, "client_cpu_seconds": usage.ru_utime + usage.ru_stime}
