"""A worker of a feed, with SQLAlchemy: python worker.py FEED TABLE WORKER. See orm.md."""

import sys

import sqlalchemy as sa
from models import Base

# These settings notice an unresponsive server after 20 seconds.
TIMEOUTS = {"connect_timeout": 20, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 2,
           "tcp_user_timeout": 20000}
DEAD_LETTERS = sa.Table("dead_letters", Base.metadata, sa.Column("row", sa.Text), sa.Column("error", sa.Text))
TAKE = sa.text("SELECT number, token, tries FROM feed_take_batch(:feed, :worker, 100, max_tries => 5)")
FINISH = sa.text("SELECT feed_finish_batch(:feed, :number, :token)")
CHECK = [sa.text(f"SET CONSTRAINTS ALL {when}") for when in ("IMMEDIATE", "DEFERRED")]
FAIL = sa.text("SELECT feed_fail_batch(:feed, :number, :token, :reason, retry_after => '1 second')")


def process(session, row):  # replace this function
    print(row.id, row.body, flush=True)


def work(session, feed, table, worker):
    """Process a batch, if there is one. Return the result, or None if there is no batch."""
    batch = session.execute(TAKE, {"feed": feed, "worker": worker}).mappings().one()
    session.commit()
    if batch["number"] is None:
        session.execute(sa.text("SELECT feed_wait(:feed, timeout => '1 second')"), {"feed": feed})
        session.commit()
        return None
    parameters = {"feed": feed, "number": batch["number"], "token": batch["token"]}
    model = next(mapper.class_ for mapper in Base.registry.mappers if mapper.local_table.name == table)
    rows = sa.text(f"SELECT * FROM feed_batch_rows(:feed, :number, null::{table})")
    try:
        for row in session.scalars(sa.select(model).from_statement(rows), parameters).all():
            process_one(session, row, batch["tries"])
        session.execute(FINISH, parameters)
        session.commit()
        return "finished"
    except Exception as error:
        session.rollback()
        is_dead = session.scalar(FAIL, parameters | {"reason": str(error)})
        session.commit()
        return f"{'dead' if is_dead else 'will be tried again'}: {error}"


def process_one(session, row, tries):
    if tries == 1:
        return process(session, row)
    values = {column.key: str(getattr(row, column.key)) for column in sa.inspect(row).mapper.column_attrs}
    try:
        with session.begin_nested():  # a savepoint
            process(session, row)
            session.flush()
            for statement in CHECK:  # checks this row now, instead of all rows at the commit
                session.execute(statement)
    except Exception as error:
        session.execute(DEAD_LETTERS.insert().values(row=str(values), error=str(error)))


if __name__ == "__main__":
    engine = sa.create_engine("postgresql+psycopg://", connect_args=TIMEOUTS)
    DEAD_LETTERS.create(engine, checkfirst=True)
    with sa.orm.Session(engine) as session:
        while True:
            if result := work(session, *sys.argv[1:]):
                print(result, file=sys.stderr, flush=True)
