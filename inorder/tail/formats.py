"""The formats in which rows are written."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """How the server writes a row, as options of its COPY."""

    columns: str
    options: str
    has_header: bool


# JSON has neither \x01 nor \x02 in it, so that CSV with these leaves it as it is. Line ends are in it only between
# the parts of a column of type json, as it was put in: they become blanks, by replace(), which needs no space where
# there are none, not by translate(), which asks for four times the length.
FORMATS = {
    "json": Format(
        r"pg_catalog.replace(pg_catalog.replace(pg_catalog.row_to_json(e.*)::text, E'\n', ' '), E'\r', ' ')",
        r"FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'",
        has_header=False,
    ),
    "csv": Format("e.*", "FORMAT csv, HEADER", has_header=True),
}
