"""The count of a table, asked in a session."""

from datetime import datetime

import click
from psycopg import sql

from inorder.connection.database import query
from inorder.connection.session import Session, Table

TABLE = "{table}::pg_catalog.oid::pg_catalog.regclass"
SHOW = sql.SQL(f"SELECT {{inorder}}.exact_count({TABLE})")
START = sql.SQL(f"SELECT {{inorder}}.exact_count_start({TABLE}, NULL::pg_catalog.name)")
FOLD = sql.SQL(f"SELECT {{inorder}}.exact_count_fold({TABLE})")
STOP = sql.SQL(f"SELECT {{inorder}}.exact_count_stop({TABLE})::pg_catalog.text")


class Counter:
    def __init__(self, name: str) -> None:
        self.name = name

    def attach(self, session: Session) -> None:
        self.session = session
        self.table: Table = session.table(self.name)

    def ask(self, statement: sql.SQL) -> int:
        (number,) = self.session.row(statement, table=self.table.oid)
        return int(str(number)) if number else 0

    def fold(self) -> None:
        if rows := self.ask(FOLD):
            click.echo(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {self.table.shown}  +{rows:,} rows", err=True)

    def cron(self, schedule: str) -> str:
        parts = {"table": self.table.quoted, "schema": self.session.schema_name, "schedule": schedule}
        (line,) = self.session.row(query("count_cron"), **parts)
        return str(line)
