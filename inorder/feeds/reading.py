"""The feeds, as a session sees them now."""

from inorder.database import query
from inorder.feeds.formats import Row
from inorder.session import Session


class Reading:
    """What the view feeds shows, in a session."""

    def attach(self, session: Session) -> None:
        """Read in this session."""
        self.session = session

    def rows(self) -> list[Row]:
        """A row for each feed that the role may see."""
        return [row for (row,) in self.session.rows(query("feeds")) if isinstance(row, dict)]
