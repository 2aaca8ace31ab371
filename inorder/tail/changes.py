"""The changes of a table as a source: a position in their log, and rows as they are when they are read."""

from dataclasses import replace

from inorder.connection.session import Table
from inorder.tail.sources import Batch, TableSource
from inorder.tail.state import Mark


class ChangesSource(TableSource):
    question = "tail_changes"
    is_fixed = False

    def numbered_table(self) -> Table:
        return self.session.log(self.table)

    def found(self) -> Batch | None:
        """Rows of the table are none of the log, by whose number a full batch would be known."""
        batch = super().found()
        if batch is None:
            return None
        *self.query, has_all = self.query
        return replace(batch, is_part=has_all != b"t")

    def begin(self, batch: Batch, start: str | None, output: Mark | None) -> None:
        """A batch that is read again begins with other bytes, which the file must say before they are in the output."""
        if self.present.pending is not None:
            self.knows_output = False
        super().begin(batch, start, output)
