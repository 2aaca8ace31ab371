"""Sections, which are the parts of every report. The functions are pure.

A section is a table with charts of the same values, which every output format can show. None stands for a value that
was not measured, and is shown as an empty cell.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.report.plots import Chart
from inorder.text import one_line

Value = Estimate | float | int | str | None


Digits = int | Callable[[float], int | str]  # decimal places, or a function that returns them or a format specification


def number(digits: Digits = 0, unit: str = "", interval: bool = False, sign: str = "") -> Callable[[Any], str]:
    """Return a function that formats a number or an estimate, with its interval if requested.

    >>> show = number(1, "ms")
    >>> show(1234.56), show(Estimate(2.0, 1.0, 3.0, 6)), show(None), show("all")
    ('1,234.6 ms', '2.0 ms', '', 'all')
    >>> interval_text(Estimate(2.0, 1.0, 3.0, 6)), interval_text(Estimate(0.4, None, None, 1))
    ('2.00 [1.00–3.00]', '0.40 (once)')
    >>> number(1, "%", sign="+")(4.0), [figures(value) for value in (0.0512, 1.234, 56.78, 1234.5, 0.0)]
    ('+4.0 %', ['0.051', '1.23', '56.8', '1,234', '0'])
    >>> number(0, "%", interval=True)(Estimate(59.0, 58.0, 60.0, 6)), number(lambda size: ".4g")(0.123456)
    ('59 % [58–60 %]', '0.1235')
    >>> percent(76.04), percent(Estimate(99.83, 99.0, 99.9, 6)), percent(100.0)
    ('76 %', '99.8 %', '100 %')
    """

    def show(value: Value) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        middle = value.median if isinstance(value, Estimate) else value
        precision = digits if isinstance(digits, int) else digits(abs(middle))
        form, suffix = precision if isinstance(precision, str) else f",.{precision}f", f" {unit}" if unit else ""
        shown = f"{middle:{sign}{form}}{suffix}"
        if not interval or not isinstance(value, Estimate):
            return shown
        has_interval = value.low is not None and value.high is not None
        return f"{shown} [{value.low:{form}}–{value.high:{form}}{suffix}]" if has_interval else f"{shown} (once)"

    return show


interval_text = number(2, interval=True)
# ``figures`` shows three significant figures, and all digits of the integer part. ``percent`` shows tenths only near
# 100.
figures = number(lambda size: 0 if size == 0 else 3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0)
percent = number(lambda size: int(99 < size < 99.95), "%")


def text(value: Value) -> str:
    return "" if value is None else str(value)


def ratio(value: Value) -> str:
    """Format a ratio with its interval, and a note if the ratio does not differ from 1.

    >>> ratio(Estimate(0.5, 0.4, 0.6, 6)), ratio(Estimate(1.02, 0.9, 1.1, 6)), ratio(Estimate(0.5, 0.4, 0.6, 3))
    ('0.50 [0.40–0.60]', '1.02 [0.90–1.10] no difference', '0.50 [0.40–0.60]')
    """
    includes_1 = isinstance(value, Estimate) and value.rounds >= LEAST_ROUNDS and not value.differs_from(1.0)
    return interval_text(value) + (" no difference" if includes_1 else "")


def to_base(value: Value) -> str:
    """Format a ratio to a base. The base has its own row, in which the ratio is 1.

    >>> to_base(Estimate(0.5, 0.4, 0.6, 6)), to_base(Estimate(1.0, 1.0, 1.0, 6)), to_base(1)
    ('0.50 [0.40–0.60]', '1', '1')
    """
    is_base = value == 1 or (isinstance(value, Estimate) and {value.median, value.low, value.high} <= {1.0, None})
    return "1" if is_base else interval_text(value)


@dataclass(frozen=True)
class Column:
    """A column: its name, its meaning and source, and the function that formats its values.

    * ``data``: the name of the column in CSV and JSON, which include all columns.
    * ``terminal``: the column is shown on a terminal.
    * ``page``: the column is shown on a page.
    * ``wrap``: the values are sentences.
    * ``bar``: on the page, each cell has a bar on the scale of the column.
    * ``alarming``: values are highlighted, except "", "-" and "no".
    """

    name: str
    meaning: str
    show: Callable[[Any], str] = text
    data: str = ""
    terminal: bool = True
    page: bool = True
    wrap: bool = False
    bar: bool = False
    alarming: bool = False

    def alarms(self, shown: str) -> bool:
        return self.alarming and shown not in ("", "-", "no")


@dataclass(frozen=True, kw_only=True)
class Figure(Column):
    """A column, and a function that computes its value from a line."""

    value: Callable[[Any], Any]


def data_only(name: str, value: Callable[[Any], Value] = text) -> Figure:
    return Figure(name, "", data=name, terminal=False, page=False, value=value)


@dataclass(frozen=True)
class Section:
    """A table, with a name for links and data. The first value of a row is its label.

    The caption explains the table. The note, which appears only on the page, describes the conditions of the
    measurement.

    * ``data``: False for a section that repeats other sections.
    * ``terminal``: False for a section that is too long for a terminal.
    * ``across``: bars are on the scale of their row, because each row has a different unit.
    * ``main``: the section comes first on the page.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    caption: str = ""
    charts: Sequence[Chart] = ()
    terminal: bool = True
    data: bool = True
    note: str = ""
    across: bool = False
    main: bool = False

    def __post_init__(self) -> None:
        """Refuse two columns with the same name, because the data would contain only the last one.

        >>> Section("s", "S", [Column("a", ""), Column("b", "", data="a")], [])
        Traceback (most recent call last):
        ValueError: section s has more than one column a
        """
        names = [column.data or column.name for column in self.columns]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ValueError(f"section {self.name} has more than one column {', '.join(twice)}")

    def of_columns(self, wanted: Callable[[Column], bool]) -> "Section":
        """Return the section with the wanted columns, except those without any value."""
        places = [
            place for place, column in enumerate(self.columns)
            if wanted(column) and (not self.rows or any(row[place] not in (None, "") for row in self.rows))
        ]  # fmt: skip
        rows = [[row[place] for place in places] for row in self.rows]
        return replace(self, columns=[self.columns[place] for place in places], rows=rows)

    def shown(self) -> list[list[str]]:
        """Return the cells as text, escaped because names in cells may come from an untrusted server.

        >>> Section("s", "S", [Column("a", "")], [["n\\x1b[2J"]]).shown()
        [['n\\\\x1b[2J']]
        """
        return [
            [one_line(column.show(value)) for column, value in zip(self.columns, row, strict=True)] for row in self.rows
        ]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as data. An estimate becomes three columns.

        >>> Section("s", "S", [Column("a", ""), Column("b", "")], [["x", Estimate(2.0, 1.0, 3.0, 6)]]).records()
        [{'table': 's', 'a': 'x', 'b': 2.0, 'b_low': 1.0, 'b_high': 3.0}]
        """
        return [
            {"table": self.name}
            | {
                name: content
                for column, value in zip(self.columns, row, strict=True)
                for name, content in parts(column.data or column.name, value)
            }
            for row in self.rows
        ]


def table(
    name: str, title: str, figures: Sequence[Figure], lines: Iterable[Any], caption: str = "", **more: Any
) -> Section:
    rows = [[figure.value(line) for figure in figures] for line in lines]
    return Section(name, title, figures, rows, caption, **more)


def parts(name: str, value: Value) -> list[tuple[str, Any]]:
    if isinstance(value, Estimate):
        return [(name, value.median), (f"{name}_low", value.low), (f"{name}_high", value.high)]
    return [(name, value)]
