"""Each error, query and constant is written only once: not in both C and SQL, and not in the SQL of both editions."""

import re

from sources import C_FILES, PLAIN_FILES, ROOT, SQL_FILES

# Two dashes begin a comment if they precede a space or the end of the line. Dashes in strings precede an option.
C_COMMENT, SQL_COMMENT = re.compile(r"/\*.*?\*/", re.S), re.compile(r"--+(?: .*)?$", re.M)
IN_C = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*')
IN_SQL = re.compile(r"'(?:[^']|'')*'(?:\s*\n\s*'(?:[^']|'')*')*")
# Shorter strings are names.
LEAST = 25
# Strings of the ports, which are implemented both in C and in SQL: keys, transactions, the guard, the state, proofs and
# rows.
OF_PORTS = {
    "10889-08-02 05:31:50.655999+00",
    "A key holds 48 bits of transaction number.",
    "At least 2^30 keys fit into one transaction.",
    "Run the other statements separately, in the same transaction.",
    "Limit the rows with max_rows, as in feed_apply(name, statement, 10).",
    "The position moves past the whole batch, including the rows that are left out.",
    "The snapshot does not see the current files and partitions of the table.",
    "The version is the 13th hexadecimal digit, and the 17th must be 8, 9, a or b (RFC 9562, section 4).",
    "Try again in a new transaction.",
    "cannot run several statements over one batch",
    "columns of … were changed after this query began",
    "feed_enable() creates the right triggers.",
    "partitions of … were attached, detached or changed while it was read",
    "sequence with OID … does not exist",
    "statement must not be null",
    "table … was rewritten after the snapshot of this transaction was taken",
    "timestamp … is outside the range of version-7 UUIDs",
    "transaction … has used up its keys",
    'trigger "…" has no base among its arguments',
    'trigger "…" is not FOR EACH ROW',
    'trigger "…" names no column',
    "uuid … is not of version …",
}  # fmt: skip
# Names of errors and settings.
NAMES = re.compile(r"[a-z_]+")


def literals(text: str, pattern: re.Pattern[str]) -> set[str]:
    """Return the literals of a source.

    Literals that continue on the next line are joined. Placeholders become ``…``.

    >>> sorted(literals("RAISE 'it''s the length of % which is '\\n  '%s'; -- 'no'", IN_SQL))
    ["it's the length of … which is …"]
    """
    is_c = pattern is IN_C
    quote = '"' if is_c else "'"
    texts = set()
    for literal in pattern.findall((C_COMMENT if is_c else SQL_COMMENT).sub("", text)):
        joined = re.sub(rf"(?<!{quote}){quote}\s+{quote}", "", literal)[1:-1]
        plain = joined.replace('\\"', '"') if is_c else joined.replace("''", "'")
        texts.add(re.sub(r"%(?:\d\$)?(?:ll|l)?[a-zA-Z%]|%", "…", plain).strip())
    return {each for each in texts if len(each) >= LEAST and not NAMES.fullmatch(each)}


def test_no_literal_is_repeated_in_c_and_sql() -> None:
    """If C and SQL or both editions need the same string, they share a single definition."""
    in_c = set().union(*[literals(path.read_text(), IN_C) for path in C_FILES])
    in_sql = set().union(*[literals(path.read_text(), IN_SQL) for path in SQL_FILES])
    in_plain = set().union(*[literals(path.read_text(), IN_SQL) for path in PLAIN_FILES])
    assert in_c & in_plain | in_sql & in_plain | in_c & in_sql == OF_PORTS


def test_only_the_snapshot_port_reads_the_transactions_in_progress() -> None:
    """If PostgreSQL replaced a snapshot's transaction list with a commit LSN, only this code would have to change."""
    knowing = {str(path.relative_to(ROOT)) for path in (*C_FILES, *SQL_FILES, *PLAIN_FILES)
               if re.search(r"xip\b", C_COMMENT.sub("", SQL_COMMENT.sub("", path.read_text())))}  # fmt: skip
    assert knowing == {"src/ports/snapshot.c", "sql/plain/snapshot.sql"}
