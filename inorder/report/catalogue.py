"""How each experiment's result is shown: its tables, its data, its one sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType

from inorder.lab.experiments import bulk, feed, generators, insert, mixed, reader, reuse, sequence, uuid_v1, writers
from inorder.lab.results import Result
from inorder.report.bulk import bulk_headline, bulk_sections
from inorder.report.feed import feed_tables, summarise_feed
from inorder.report.formats import flat
from inorder.report.generators import generators_table, summarise_generators, task_table
from inorder.report.mixed import mixed_headline, mixed_sections
from inorder.report.model import model_sections
from inorder.report.reader import reader_tables, summarise_reader
from inorder.report.reuse import reuse_sections
from inorder.report.section import Section
from inorder.report.sequence import sequence_headline, sequence_sections
from inorder.report.summary import KindSummary, headline, summarise
from inorder.report.terminal import insert_tables, section_table
from inorder.report.uuid_v1 import summarise_uuid_v1, uuid_v1_table
from inorder.report.writers import writers_sections


@dataclass(frozen=True)
class Report:
    """Tables for a terminal, records as data, and a sentence ("" for none)."""

    tables: Callable[[Result], Sequence[RenderableType]]
    records: Callable[[Result], Sequence[dict[str, Any]]]
    headline: Callable[[Result], str] = lambda result: ""


def of_rows(
    summarise: Callable[[Result], Sequence[Any]], tables: Callable[[Result], Sequence[RenderableType]]
) -> Report:
    """A report whose data are dataclasses."""
    return Report(tables, lambda result: [flat(row) for row in summarise(result)])


def of_sections(
    sections: Callable[[Result], Sequence[Section]], headline: Callable[[Result], str] = lambda result: ""
) -> Report:
    """A report made of sections."""
    return Report(
        lambda result: [section_table(section) for section in sections(result)],
        lambda result: [record for section in sections(result) for record in section.records()],
        headline,
    )


def all_kinds(result: Result) -> list[KindSummary]:
    """The rows of the insert experiment."""
    return [kind for kinds in summarise(result).values() for kind in kinds]


def insert_headline(result: Result) -> str:
    """About the largest table."""
    sizes = list(summarise(result).values())
    return headline(sizes[-1] if sizes else [])


REPORTS = {
    insert.NAME: Report(
        lambda result: [*insert_tables(summarise(result)), *map(section_table, model_sections(result))],
        lambda result: [flat(kind) for kind in all_kinds(result)],
        insert_headline,
    ),
    generators.NAME: of_rows(summarise_generators, lambda result: [generators_table(result), task_table(result)]),
    uuid_v1.NAME: of_rows(summarise_uuid_v1, lambda result: [uuid_v1_table(result)]),
    reader.NAME: of_rows(summarise_reader, lambda result: list(reader_tables(result))),
    feed.NAME: of_rows(summarise_feed, lambda result: list(feed_tables(result))),
    bulk.NAME: of_sections(bulk_sections, bulk_headline),
    sequence.NAME: of_sections(sequence_sections, sequence_headline),
    writers.NAME: of_sections(writers_sections),
    mixed.NAME: of_sections(mixed_sections, mixed_headline),
    reuse.NAME: of_sections(reuse_sections),
}
