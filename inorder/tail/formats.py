"""The formats in which rows are written."""

from dataclasses import dataclass

from psycopg import sql

from inorder.connection.database import query
from inorder.connection.session import Table

ALL = sql.SQL("SELECT {table}::pg_catalog.oid::pg_catalog.regclass AS relation, 'e.*'::pg_catalog.text AS columns")


@dataclass(frozen=True)
class Format:
    """How the server writes a row: a query for what of it, and options of COPY."""

    columns: sql.SQL
    options: sql.SQL
    has_header: bool

    def wanted(self, table: Table) -> sql.Composed:
        return self.columns.format(table=table.oid)

    def copy(self, answer: list[bytes | None], rows: sql.Composable) -> sql.Composed:
        """The COPY of rows, of which the server has said last what is wanted."""
        columns = sql.SQL((answer[-1] or b"").decode())
        return query("tail_rows").format(columns=columns, rows=rows, options=self.options)


# JSON has neither \x01 nor \x02 in it, so that CSV with these leaves it as it is.
FORMATS = {
    "json": Format(query("tail_json"), sql.SQL(r"FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'"), has_header=False),
    "csv": Format(ALL, sql.SQL("FORMAT csv, HEADER"), has_header=True),
    "parquet": Format(ALL, sql.SQL("FORMAT csv"), has_header=False),  # of which the tool makes files
}
