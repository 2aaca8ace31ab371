"""The base class of sources, which provide the batches of a run."""

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
    """A batch and the position after it, or the number of a batch stored in the database."""

    batch: Json | int
    after: Json = field(default_factory=dict)
    # Number of rows in a full batch (0: unknown, from an earlier run). A batch with fewer rows reaches the end of the
    # table.
    full: int = 0
    # True for a part of a set that is delivered in the order of a column. More rows may follow even if it is not full.
    is_part: bool = False

    @property
    def name(self) -> str:
        return str(self.batch) if isinstance(self.batch, int) else name_of(self.batch)


class Source:
    """A source of batches. A batch that was begun is returned again until it is finished."""

    form: Format
    arrow: "ArrowReader | None" = None  # reads the rows; None if the session reads them
    session: Session
    table: Table
    max_rows: int  # maximum number of rows in the next batch
    is_new = False  # True if this run starts with a new position
    is_behind = False  # True if the last batch was full
    asks_ahead = False  # True if the next batch is requested while a batch is being read
    is_fixed = True  # True if a batch has the same rows whenever it is read
    begun: str | None = None  # first bytes of a batch that the last run left unfinished in a file

    def attach(self, session: Session) -> None:
        """Continue in this session."""
        raise NotImplementedError

    def output(self) -> Mark | None:
        """Return the end of the delivered rows in the output file, as saved with the position.

        Return None if the output is not a file.
        """
        return None

    def lock(self) -> int:
        """Return the descriptor of the lock that excludes other runs."""
        raise NotImplementedError

    def next(self) -> Batch | None:
        raise NotImplementedError

    def rows(self, batch: Batch) -> Generator[Any, None, None]:
        """Yield the rows as the server writes them. If the format has a header, it comes first."""
        raise NotImplementedError

    def pieces(self, batch: Batch) -> Pieces:
        with closing(self.rows(batch)) as blocks:
            yield from self.form.pieces(blocks)

    def header(self) -> bytes:
        """Return the header of an output without rows."""
        return bytes(header_of(self.arrow.empty(self.session, self.table))) if self.arrow else BINARY_HEADER

    def wait(self) -> None:
        """Return when the next batch has rows, or after a second."""
        raise NotImplementedError

    def expect(self, batch: Batch, size: int) -> None:
        """Let the server prepare the batch that follows a full batch of ``size`` bytes, before it is requested."""

    def begin(self, batch: Batch, start: str | None, output: Mark | None) -> None:
        """Store the batch before its rows are written, with its start and the output."""

    def finish(self, batch: Batch, output: Mark | None) -> None:
        """Move the position past the batch. If the output is a file, begin() or flush() may save the position later."""
        raise NotImplementedError

    def check_name(self) -> None:
        """Raise an error if another table now has the name of this table. Called at the end of the table."""

    def skip(self, batch: Batch) -> None:
        """Move the position past a batch without rows. The position need not be saved."""
        self.finish(batch, None)

    def shrink(self, batch: Batch) -> int | None:
        """Halve the row limit, and return the new limit. Return None if the batch cannot be replaced."""
        return None

    def forget_begun(self) -> None:
        """Forget that the batch was begun, so that another batch may replace it."""

    def flush(self) -> None:
        """Save a position that finish() left for the next begin(), because no batch follows for now."""

    def end(self) -> None:
        """Save the position after skipped batches at the end of a run."""

    def close(self) -> None:
        """Close the Arrow connections. A source for a feed also releases its lock."""
        if self.arrow is not None:
            self.arrow.close()
