"""The tool without the time it takes to load: a process that has loaded it forks for each run.

A run differs from ``python -m inorder`` in nothing else: a process of its own, with its own folder, environment and
output. Of the three quarters of a second of each, loading is all but a few hundredths.
"""

import atexit
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

LONGEST_REQUEST = 1 << 20
lock = threading.Lock()


@cache
def loaded() -> socket.socket:
    """The way to a process that has loaded everything; it ends when the way is closed, at the latest with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the tool, and wait for it."""
    request = json.dumps({"arguments": arguments, "folder": str(folder), "environment": dict(environment)}).encode()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, lock:
        channel = loaded()
        socket.send_fds(channel, [request], [out.fileno(), err.fileno()])
        status = channel.recv(100)
        assert status, "the process that has loaded the tool is gone"
        written = []
        for file in (out, err):
            file.seek(0)
            written.append(file.read().decode())
    return subprocess.CompletedProcess(list(arguments), int(status), *written)


def serve(channel: socket.socket) -> None:
    """Load, then fork for each request; the child becomes the tool."""
    for module in import_module("inorder.cli").MODULES.values():
        import_module(module)
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, LONGEST_REQUEST, 2)
        if not request:
            return
        child = os.fork()
        if child == 0:
            channel.close()
            become(json.loads(request), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def become(request: dict[str, object], descriptors: Sequence[int]) -> None:
    """The program as it is started by its name; it does not come back."""
    for ours, theirs in enumerate(descriptors, 1):
        os.dup2(theirs, ours)
        os.close(theirs)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    sys.argv = ["inorder", *request["arguments"]]  # type: ignore[misc]
    runpy.run_module("inorder", run_name="__main__")
    raise AssertionError("the program came back")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
