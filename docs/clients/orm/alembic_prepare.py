"""Prepare an existing table for feeds, online."""

from alembic import op


def upgrade() -> None:
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        connection.exec_driver_sql("SET lock_timeout = '1s'")
        for (statement,) in connection.exec_driver_sql("SELECT feed_prepare('orders')").all():
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("RESET lock_timeout")
