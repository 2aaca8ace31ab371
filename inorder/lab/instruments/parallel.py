"""Several statements at a time, each in a session of its own."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from inorder.connection.database import connect
from inorder.lab.instruments.machine import available_cores


def execute_all(dsn: str, statements: Sequence[str]) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(dsn)) for _ in statements]
        pool = stack.enter_context(ThreadPoolExecutor(available_cores()))
        try:
            jobs = [
                pool.submit(connection.execute, statement.encode())
                for connection, statement in zip(connections, statements, strict=True)
            ]
            for job in jobs:
                job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for connection in connections:
                connection.cancel()
            raise
