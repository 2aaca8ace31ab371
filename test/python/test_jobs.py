"""The jobs of inorder tail, without a server: order, memory, and how they end."""

import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any, cast

import psycopg
import pytest
from inorder.tail import jobs
from inorder.tail.jobs import Jobs, Relay
from inorder.tail.rows import PartReader

BLOCK = 3  # of so many bytes


class FakeRows(list[int]):
    nbytes = BLOCK


class FakeReader:
    def __init__(self, seen: list[str]) -> None:
        self.seen = seen
        seen.append("open")

    def rows(self, part: int) -> Generator[FakeRows, None, None]:
        if part < 0:
            raise psycopg.errors.SerializationFailure(str(part))
        for place in range(part % 7):
            yield FakeRows([part, place])

    def cancel(self) -> None:
        self.seen.append("cancel")

    def close(self) -> None:
        self.seen.append("close")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(jobs, "AHEAD_BYTES", 2 * BLOCK)
    before = threading.active_count()
    yield []
    assert threading.active_count() == before


def of(seen: list[str], reader: type[FakeReader] = FakeReader) -> Jobs:
    return Jobs(3, lambda: cast(PartReader, reader(seen)))


def test_parts_come_in_order_and_readers_are_kept(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    relays: list[Relay] = []

    def kept(*given: Any) -> Relay:
        relays.append(Relay(*given))
        return relays[-1]

    monkeypatch.setattr(jobs, "Relay", kept)
    readers = of(seen)
    for _ in range(5):
        found = [block for part in readers.parts(range(50)) for block in part]
        assert found == [[part, place] for part in range(50) for place in range(part % 7)]
        assert relays.pop().held == 0  # or else jobs would read ahead less and less
    assert seen == ["open"] * 3
    readers.close()
    assert seen == ["open"] * 3 + ["close"] * 3


def test_what_waits_for_its_turn_is_bounded(seen: list[str]) -> None:
    """Also where the output is slow, and where a single block is larger than all that may wait."""
    asked = []

    class Counted(FakeReader):
        def rows(self, part: int) -> Generator[FakeRows, None, None]:
            for block in super().rows(part):
                asked.append(block)
                block.nbytes = 100 if block == [13, 0] else BLOCK
                yield block

    with closing(of(seen, Counted).parts(range(20))) as parts:
        for taken, _ in enumerate(chain.from_iterable(parts), 1):
            assert len(asked) - taken <= 3 * 2 + 3 + 1  # those that wait, one in the hands of each job, and ours
    assert len(asked) == sum(part % 7 for part in range(20))


@pytest.mark.parametrize("wrong", [0, 5, 19])
def test_an_error_in_one_part_ends_all(seen: list[str], wrong: int) -> None:
    batches = [*range(wrong), -1, *range(wrong, 20)]
    with pytest.raises(psycopg.errors.SerializationFailure), closing(of(seen).parts(batches)) as parts:
        list(chain.from_iterable(parts))
    assert seen.count("open") == seen.count("close")


def test_nobody_wants_the_rest(seen: list[str]) -> None:
    with closing(of(seen).parts(range(20))) as parts:
        assert list(islice(chain.from_iterable(parts), 4)) == [[1, 0], [2, 0], [2, 1], [3, 0]]
    assert 0 < seen.count("open") == seen.count("close") and "cancel" in seen


def test_a_job_that_gets_no_connection(seen: list[str]) -> None:
    def none() -> PartReader:
        seen.append("refused")
        raise psycopg.OperationalError("too many clients")

    with (
        pytest.raises(psycopg.OperationalError, match="too many"),
        closing(Jobs(2, none).parts(range(9))) as parts,
    ):
        list(chain.from_iterable(parts))
    assert set(seen) == {"refused"}
