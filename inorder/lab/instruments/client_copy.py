"""COPY through this process, for a server whose files are out of reach."""

import os
from pathlib import Path

from inorder.connection.database import Connection

CHUNK = 2**18


def copy_out(session: Connection, what: str, file: Path = Path(os.devnull)) -> int:
    with session.cursor() as cursor:
        with cursor.copy(f"COPY {what} TO STDOUT".encode()) as copy, file.open("wb") as written:
            for part in copy:
                written.write(part)
        return cursor.rowcount


def copy_in(session: Connection, table: str, file: Path) -> int:
    with session.cursor() as cursor:
        with cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy, file.open("rb") as read:
            while part := read.read(CHUNK):
                copy.write(part)
        return cursor.rowcount
