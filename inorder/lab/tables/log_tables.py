"""The log table of study P5: twelve columns, 256 bytes per row, with keys that a feed can or cannot follow."""

COLUMNS = ", ".join(
    [f"c{n} int DEFAULT {n}" for n in range(1, 5)]
    + [f"c{n} text DEFAULT '{format(n, 'x') * 32}'" for n in range(5, 11)]
    + ["c11 timestamp DEFAULT clock_timestamp()"]
)
SERIAL = "id bigserial PRIMARY KEY"
BY_UUID = "id uuid PRIMARY KEY DEFAULT uuid_xact_nextval()"

BATCH_ROWS = 600  # rows per statement in batch mode


def create(table: str, key: str) -> str:
    return f"CREATE TABLE {table} ({key}, {COLUMNS})"


def insert(table: str, rows: int) -> str:
    """Return the statement used in the study: an INSERT with ``rows`` rows of VALUES."""
    return f"INSERT INTO {table} (c1) {values(rows)}"


def values(rows: int) -> str:
    return f"VALUES {', '.join(['(1)'] * rows)}"


def in_transactions(number: int, statement: str) -> str:
    return f"DO $$BEGIN FOR n IN 1 .. {number} LOOP {statement}; COMMIT; END LOOP; END$$"
