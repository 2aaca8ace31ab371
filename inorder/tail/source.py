"""A source: what hands out batches, as a run sees it."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from inorder.connection.session import Session, Table
from inorder.tail.formats import BINARY_HEADER, Format, Pieces, header_of
from inorder.tail.state import Json, Mark, name_of

if TYPE_CHECKING:
    from inorder.arrow.reader import ArrowReader


@dataclass(frozen=True)
class Batch:
    """A batch, and the position after it; or the number of one that the database keeps."""

    batch: Json | int
    after: Json = field(default_factory=dict)
    full: int = 0  # with fewer rows nothing was left; 0 for one of an earlier run, for which nobody knows
    is_part: bool = False  # of a set that is delivered in order: more may have ended since, however many rows it has

    @property
    def name(self) -> str:
        return str(self.batch) if isinstance(self.batch, int) else name_of(self.batch)


class Source:
    """Hands out batches. One that was begun comes again until it is finished."""

    form: Format
    arrow: "ArrowReader | None" = None  # reads the rows, in the place of the session
    session: Session
    table: Table
    max_rows: int  # of the next batch
    is_new = False  # whether this run begins to read
    is_behind = False  # the last batch was full
    asks_ahead = False  # for the next batch while one is read
    is_fixed = True  # a batch has the same rows each time
    begun: str | None = None  # how the batch begins that is half in a file, as the last run left it

    def attach(self, session: Session) -> None:
        """Go on in this session."""
        raise NotImplementedError

    def output(self) -> Mark | None:
        """The end of the rows in a file, by the position as it is on the disk."""
        return None

    def lock(self) -> int:
        """The descriptor of the lock that keeps other runs away."""
        raise NotImplementedError

    def next(self) -> Batch | None:
        raise NotImplementedError

    def rows(self, batch: Batch) -> Generator[Any, None, None]:
        """Its rows, as the server writes them, after a header if the format has one; the same each time."""
        raise NotImplementedError

    def pieces(self, batch: Batch) -> Pieces:
        with closing(self.rows(batch)) as blocks:
            yield from self.form.pieces(blocks)

    def header(self) -> bytes:
        """Of an output without rows."""
        return bytes(header_of(self.arrow.empty(self.session, self.table))) if self.arrow else BINARY_HEADER

    def wait(self) -> None:
        """Return when there is a next batch with rows, or after a second."""
        raise NotImplementedError

    def expect(self, batch: Batch, size: int) -> None:
        """The batch after this full one, of so many bytes, will be asked for soon: let the server begin."""

    def begin(self, batch: Batch, start: str | None, output: Mark | None) -> None:
        """Remember that its rows are being written, and where."""

    def finish(self, batch: Batch, output: Mark | None) -> None:
        """Move the position over it; for good with a later begin() or flush() if the output shows what it has."""
        raise NotImplementedError

    def check_name(self) -> None:
        """An error if all is read of a table whose name another one has now."""

    def skip(self, batch: Batch) -> None:
        """Move the position over a batch without rows, which may be forgotten."""
        self.finish(batch, None)

    def shrink(self, batch: Batch) -> int | None:
        """Ask for fewer rows in its place, at most so many; None if that is impossible, or others may have seen it."""
        return None

    def forget_begun(self) -> None:
        """What the last run left unfinished is taken back: another batch may come in its place."""

    def flush(self) -> None:
        """No batch follows for now: what finish() left for the next begin() is remembered for good."""

    def end(self) -> None:
        """At the end of a run: what was skipped is remembered for good."""

    def close(self) -> None:
        """Let others read."""
        if self.arrow is not None:
            self.arrow.close()
