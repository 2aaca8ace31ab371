"""Runs of the tool without its loading time: a process that has loaded the tool forks for each run.

A run is a separate process with its own folder, environment and output. It differs from ``python -m inorder`` in two
ways: the run does not free its memory at the end, and its servers are copies, like the test servers. ``python -m
inorder`` takes a third of a second of CPU time, most of it for loading.
"""

import atexit
import errno
import fcntl
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

LONGEST_REQUEST = 1 << 20
UNWRITTEN = 120  # exit code of Python if stdout could not be flushed
HELD_AFTER = "INORDER_TEST_HELD_AFTER"
ROOM = "INORDER_TEST_ROOM"  # maximum size of a file in bytes: further writes fail as on a full disk
PAUSE = "INORDER_TEST_PAUSE"  # seconds before the first retry; the pause doubles with each retry
UNMARKED = "INORDER_TEST_UNMARKED"  # reading or writing a file attribute fails, as for another user's file
# Runs with these formats are forked from a second process, which has also loaded Arrow. The memory of other runs does
# not contain Arrow.
ARROW = {"arrow", "parquet"}
TAIL_WITH_ARROW = tuple(f"inorder.{name}" for name in ("tail.command", "tail.run", "tail.parquet", "arrow.reader"))
lock = threading.Lock()


@cache
def loaded(has_arrow: bool) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, __file__, "serve", str(theirs.fileno()), *(TAIL_WITH_ARROW if has_arrow else ())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class Run:
    def __init__(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str],
        stdout: int | IO[bytes], stderr: int | IO[bytes], channel: socket.socket | None = None,
    ) -> None:  # fmt: skip
        self.arguments = list(arguments)
        self.returncode: int | None = None
        self.stdout, out = ends(stdout)
        self.stderr, err = ends(stderr)
        self.status, theirs = socket.socketpair()
        request = {"arguments": self.arguments, "folder": str(folder), "environment": dict(environment)}
        with theirs, lock:
            channel = channel or loaded(not ARROW.isdisjoint(arguments))
            socket.send_fds(channel, [json.dumps(request).encode()], [out, err, theirs.fileno()])
            answer, (self.process,), _, _ = socket.recv_fds(channel, 100, 1)
        self.pid = int(answer)
        for pipe, end in ((self.stdout, out), (self.stderr, err)):
            if pipe:
                os.close(end)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the run, and return its exit code, or the negated signal number if it was killed."""
        if self.returncode is None:
            self.status.settimeout(timeout)
            try:
                status = self.status.recv(100)
            except (TimeoutError, BlockingIOError):
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.arguments, timeout) from None
            assert status, "the process that has loaded the tool is gone"
            self.returncode = int(status)
            self.status.close()
            os.close(self.process)
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.process, number)

    def is_stopped(self) -> bool:
        assert self.poll() is None, "it has ended"
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def ends(stream: int | IO[bytes]) -> tuple[IO[bytes] | None, int]:
    """Return the reading end of a pipe, or None if the stream is not a pipe, and the descriptor for the run."""
    if stream == subprocess.PIPE:
        reading, writing = os.pipe()
        return open(reading, "rb"), writing
    return None, stream if isinstance(stream, int) else stream.fileno()


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the tool, and wait for it. The output goes to pipes. After the timeout, the run is killed."""
    running = Run(arguments, folder, environment, subprocess.PIPE, subprocess.PIPE)
    assert running.stdout and running.stderr
    with running.stdout as out, running.stderr as err, ThreadPoolExecutor() as pool:
        try:
            written = [pool.submit(stream.read) for stream in (out, err)]
            code = running.wait(timeout)
        finally:
            running.kill()
        return subprocess.CompletedProcess(list(arguments), code, *(text.result() for text in written))


def pass_on(channel: socket.socket, arguments: Sequence[str]) -> int:
    """Run the tool for a process that has inherited the channel, and forward SIGINT of that process to the run."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    with open(__file__) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        running = Run(arguments, Path.cwd(), os.environ, 1, 2, channel)
    signal.signal(signal.SIGINT, lambda number, _: signal.pidfd_send_signal(running.process, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    code = running.wait()
    return code if code >= 0 else 128 - code


def load_all() -> None:
    for module in (
        *(module for module, _ in import_module("inorder.cli").COMMANDS.values()),
        *(module for module, _ in import_module("inorder.commands.lab").COMMANDS.values()),
        # Commands import these modules only when they are called.
        "inorder.tail.run", "inorder.count.counter", "inorder.advise.report", "inorder.advise.statements",
        "inorder.feeds.reading", "inorder.install.actions", "inorder.prepare.steps", "pglast.parser",
    ):  # fmt: skip
        import_module(module)
    import_module("inorder.lab.experiments").all_experiments()
    import_module("inorder.commands.run")
    import_module("clusters").servers_copied(import_module("pytest").MonkeyPatch())


def serve(channel: socket.socket, modules: Sequence[str]) -> None:
    """Load the modules, then fork for each request and report the end of each run.

    The forked child becomes the tool.
    """
    for module in modules:
        import_module(module)
    if not modules:
        load_all()
    # A child would lose an interrupt that arrives right after the fork. A blocked interrupt stays pending until the
    # tool is ready.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    gc.collect()
    gc.freeze()
    # descriptor of a process -> process ID, and the descriptor to which the exit code is written
    runs: dict[int, tuple[int, int]] = {}
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready in runs:
                poll.unregister(ready)
                end(ready, *runs.pop(ready))
            elif not begin(channel, runs, poll):
                return


def begin(channel: socket.socket, runs: dict[int, tuple[int, int]], poll: "select.poll") -> bool:
    """Serve one request. Return False if no more requests will come."""
    request, descriptors, _, _ = socket.recv_fds(channel, LONGEST_REQUEST, 3)
    if not request:
        return False
    *streams, status = descriptors
    child = os.fork()
    if child == 0:
        channel.close()
        for process, (_, other) in runs.items():
            os.close(process)
            os.close(other)
        os.close(status)
        become(json.loads(request), streams)
    for descriptor in streams:
        os.close(descriptor)
    process = os.pidfd_open(child)
    runs[process] = (child, status)
    poll.register(process, select.POLLIN)
    socket.send_fds(channel, [str(child).encode()], [process])
    return True


def end(process: int, number: int, status: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    with suppress(BrokenPipeError):
        os.write(status, str(code).encode())
    os.close(status)
    os.close(process)


def hold_after(sizes: list[int]) -> None:
    """Make this process stop itself with SIGSTOP whenever it has written one of these numbers of bytes."""
    write, written = os.write, 0

    def counted(descriptor: int, content: Any) -> int:
        nonlocal written
        before, now = written, write(descriptor, content)
        written += now
        if any(before < size <= written for size in sizes):
            os.kill(os.getpid(), signal.SIGSTOP)
        return now

    os.write = counted


def refuse(*_arguments: object) -> NoReturn:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    for ours, theirs in enumerate(descriptors, 1):
        os.dup2(theirs, ours)
        os.close(theirs)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environment"])
    if sizes := os.environ.pop(HELD_AFTER, None):
        hold_after([int(size) for size in sizes.split()])
    if room := os.environ.pop(ROOM, None):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), int(room)))
    if pause := os.environ.pop(PAUSE, None):
        vars(import_module("inorder.connection.patience"))["FIRST_PAUSE"] = float(pause)
    if os.environ.pop(UNMARKED, None):
        os.getxattr = os.setxattr = refuse  # type: ignore[assignment]
    sys.argv = ["inorder", *request["arguments"]]
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        runpy.run_module("inorder", run_name="__main__")
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        leave(ended.code)
    raise AssertionError("the program returned")


def leave(code: int) -> NoReturn:
    """Exit like the interpreter, but do not free the loaded modules, which takes half of a run's CPU time."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stderr.flush()
    try:
        sys.stdout.flush()
    except OSError:
        os._exit(UNWRITTEN)
    os._exit(code)


if __name__ == "__main__":
    role, descriptor, *arguments = sys.argv[1:]
    sys.exit({"serve": serve, "pass_on": pass_on}[role](socket.socket(fileno=int(descriptor)), arguments))
