"""The programs in docs/clients/http, and clients that read their streams and disconnect at random."""

import asyncio
import importlib.util
import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from conftest import ROOT
from ports import free_port
from waiting import wait_for

FOLDER = ROOT / "docs" / "clients" / "http"
BUILT = ROOT / "build" / "clients" / "http"  # built by script/clients
UVICORN = ("-m", "uvicorn", "--log-level", "warning", "--app-dir", FOLDER, "stream:app", "--port")
# The command of each program, without the port. Programs other than uvicorn take the port from the environment.
PROGRAMS: dict[str, tuple[str | Path, ...]] = {
    "python": (sys.executable, *UVICORN),
    "node": ("node", BUILT / "node" / "stream.mjs"),
    "go": (BUILT / "go" / "stream",),
}
MADE = {"node": BUILT / "node" / "node_modules" / "express", "go": BUILT / "go" / "stream"}


def missing(language: str) -> str | None:
    """Return the reason why a program cannot be run here, or None."""
    if language == "python":
        absent = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
        return f"{absent[0]} is not installed" if absent else None
    if "INORDER_TEST_CLIENTS" not in os.environ:
        return "only script/clients runs this test"
    return None if MADE[language].exists() else f"script/clients has not built {MADE[language].relative_to(ROOT)}"


def unless_missing(*languages: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test before it starts servers if one of the programs cannot be run."""
    reasons = [reason for language in languages if (reason := missing(language))]
    return pytest.mark.skipif(bool(reasons), reason="".join(reasons[:1]))


class Service:
    """A process that serves a stream until the end of the block."""

    def __init__(self, language: str, source: str, log: Path) -> None:
        self.port = free_port()
        command = [*map(str, PROGRAMS[language]), str(self.port)]
        environment = os.environ | {"SOURCE": source, "STREAM_KEY": "a key", "PORT": str(self.port)}
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def __enter__(self) -> "Service":
        wait_for(self.answers)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()

    def answers(self) -> bool:
        with suppress(ConnectionError):
            return self.get("")[0] > 0
        return False

    def get(self, after: str) -> tuple[int, Any]:
        """Return the status of a page, and its content, which is decoded if it is JSON."""
        return asyncio.run(page(self.port, after))


async def asked(port: int, path: str, *headers: str) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    try:
        writer.write("\r\n".join([f"GET {path} HTTP/1.0", *headers, "", ""]).encode())
        status = int((await reader.readline()).split()[1])
        while (await reader.readline()).strip():
            pass
    except BaseException:
        writer.close()
        raise
    return status, reader, writer


async def page(port: int, after: str) -> tuple[int, Any]:
    status, reader, writer = await asked(port, f"/changes?after={after}")
    content = await reader.read()
    writer.close()
    return status, json.loads(content) if status == 200 else content.decode()


Apply = Callable[["Client", list[dict[str, Any]]], None]


class Client:
    """A client that behaves like a browser: after a lost connection, it reconnects with its last cursor."""

    def __init__(self, ports: Sequence[int], seed: int, apply: Apply) -> None:
        self.ports, self.random, self.apply = ports, random.Random(seed), apply
        self.cursor = ""
        self.arrived: Counter[str] = Counter()
        self.copy: dict[int, dict[str, Any]] = {}
        self.refused: Counter[int] = Counter()

    async def follow(self) -> None:
        while True:
            with suppress(ConnectionError, TimeoutError, IndexError):  # IndexError: no status line
                await self.listen(self.random.choice(self.ports))
            await asyncio.sleep(0.05)

    async def listen(self, port: int) -> None:
        headers = ("Accept: text/event-stream", f"Last-Event-ID: {self.cursor}")
        status, reader, writer = await asked(port, "/changes", *headers)
        try:
            if status != 200:
                self.refused[status] += 1
                if status == 410:
                    self.drop()
                return
            async with asyncio.timeout(self.random.uniform(0.01, 2)):
                await self.take_events(reader)
        finally:
            writer.close()

    def drop(self) -> None:
        self.cursor = ""
        self.arrived.clear()
        self.copy.clear()

    async def take_events(self, reader: asyncio.StreamReader) -> None:
        event: dict[str, str] = {}
        while (line := (await reader.readline()).decode()).endswith("\n"):
            name, _, value = line.removesuffix("\n").partition(": ")
            if name:
                event[name] = value
            elif "id" in event:
                self.apply(self, json.loads(event.get("data", "[]")))
                self.cursor = event["id"]
                event = {}


def collect(client: Client, rows: list[dict[str, Any]]) -> None:
    client.arrived.update(row["id"] for row in rows)


def keep_copy(client: Client, changes: list[dict[str, Any]]) -> None:
    for change in changes:
        op, _ = change.pop("op"), change.pop("version")
        if op == "resync":
            client.copy.clear()
        elif op == "delete":
            client.copy.pop(change["id"], None)
        else:
            client.copy[change["id"]] = change


class Clients:
    """Many clients that run in a thread until the end of the block."""

    def __init__(self, number: int, services: Sequence[Service], apply: Apply) -> None:
        ports = [service.port for service in services]
        self.all = [Client(ports, seed, apply) for seed in range(number)]
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=[self.follow()])

    def refusals(self) -> set[int]:
        return {status for client in self.all for status in list(client.refused)}

    async def follow(self) -> None:
        self.stop = asyncio.Event()
        tasks = [asyncio.create_task(client.follow()) for client in self.all]
        await self.stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __enter__(self) -> "Clients":
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()
        self.loop.close()
