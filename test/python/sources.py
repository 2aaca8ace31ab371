"""The sources of the extension, by folder."""

from pathlib import Path

from edition.join import listed

ROOT = Path(__file__).resolve().parents[2]
C_FILES = sorted((ROOT / "src").rglob("*.[ch]"))
# Files in the order in which make joins them.
SQL_FILES = [ROOT / "sql" / f"{name}.sql" for name in listed(ROOT)]
# Files that only the SQL edition has.
PLAIN_FILES = sorted((ROOT / "sql" / "plain").glob("*.sql"))


def sql_file(name: str) -> Path:
    return next(path for path in SQL_FILES if path.stem == name)


def sql_source() -> str:
    return "".join(path.read_text() for path in SQL_FILES)
