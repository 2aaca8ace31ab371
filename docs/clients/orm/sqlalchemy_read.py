"""Read a feed in the transaction of a session."""

from models import Event
from sqlalchemy import select, text
from sqlalchemy.orm import Session

READ = select(Event).from_statement(text("SELECT * FROM feed_read('mailer', null::events, :max_rows)"))


def new_events(session: Session, max_rows: int = 1000) -> list[Event]:
    """Return the events committed since the last call that was committed."""
    return list(session.scalars(READ, {"max_rows": max_rows}))
