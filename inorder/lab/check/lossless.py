"""A checker for readers in Python tests, provided by the fixture in ``inorder.lab.check.pytest_plugin``."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.conninfo import make_conninfo

from inorder.lab.check.programs import Called, Function
from inorder.lab.check.run import Amount, check
from inorder.lab.check.verdict import drawn, sentence
from inorder.lab.check.ways import FATAL, Way
from inorder.lab.targets.throw_away import ThrowAway


class Lossless:
    """A checker that tests readers on a temporary server."""

    def __init__(self, target: ThrowAway) -> None:
        self.target = target

    def check(
        self, reader: str | Called, *, start: Mapping[str, str] | None = None, schedules: int | None = None,
        load: float = 1, seed: int = 1, fail_on: Sequence[str] = FATAL, **fields: Any,
    ) -> None:  # fmt: skip
        """Fail if the reader shows one of the faults in ``fail_on``.

        The reader is a query, or a function that takes a connection string and a position.

        The other arguments are options of ``inorder lab check``, and fields of a file of readers.
        """
        call = None if isinstance(reader, str) else reader
        name = call.__qualname__ if call else "sql"
        way = Way(name, name, "" if call else str(reader), program=name if call else "",
                  start={"last": "0"} | dict(start or {}), **fields)  # fmt: skip

        def own(options: str) -> Function:
            assert call
            return Function(call, make_conninfo(self.target.dsn, options=options))

        checked = check(self.target, way, Amount(schedules, load, seed), own=own if call else None)
        for fault, (case, failure) in checked.worst.items():
            if fault in fail_on:
                raise AssertionError(f"{sentence(checked)}\n\n{drawn(failure) or case}")
