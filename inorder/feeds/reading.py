"""Read the state of all feeds over one session."""

from inorder.connection.database import query
from inorder.connection.session import Session
from inorder.feeds.formats import Row


class Reading:
    def attach(self, session: Session) -> None:
        self.session = session

    def rows(self) -> list[Row]:
        return [row for (row,) in self.session.rows(query("feeds")) if isinstance(row, dict)]
