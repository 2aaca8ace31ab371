"""The formats in which rows are written."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """How the server writes a row, as options of its COPY."""

    columns: str
    options: str
    has_header: bool


# Line ends are in JSON only between the parts of a column of type json, as it was put in, or of what a type of
# somebody's own is cast to: they become blanks, by replace(), which needs no space where there are none, not by
# translate(), which asks for four times the length. Where no column can have any, the server finds out once a batch,
# which saves a sixth of its time.
ONE_LINE = r"""CASE WHEN (SELECT pg_catalog.bool_and(a.atttypid < 16384::pg_catalog.oid AND t.typtype <> 'c'
                                     AND a.atttypid <> ALL ('{{json,json[]}}'::pg_catalog.regtype[]))
                  FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
                  WHERE a.attrelid = {table}::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped)
     THEN pg_catalog.row_to_json(e.*)::text
     ELSE pg_catalog.replace(pg_catalog.replace(pg_catalog.row_to_json(e.*)::text, E'\n', ' '), E'\r', ' ') END"""

# JSON has neither \x01 nor \x02 in it, so that CSV with these leaves it as it is.
FORMATS = {
    "json": Format(ONE_LINE, r"FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'", has_header=False),
    "csv": Format("e.*", "FORMAT csv, HEADER", has_header=True),
    "parquet": Format("e.*", "FORMAT csv", has_header=False),  # of which the tool makes files
}
