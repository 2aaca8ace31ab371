"""The price of the SQL edition: what docs/results/price-18.md says of it was measured."""

from pathlib import Path

from price import EDITIONS, MEASUREMENTS, load, table

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_table_is_of_the_kept_samples() -> None:
    samples = load(DOCS / "results" / "price-18.json.gz")
    rounds = {len(values) for kinds in samples.values() for editions in kinds.values() for values in editions.values()}
    assert samples.keys() == MEASUREMENTS.keys() and min(rounds) == max(rounds) >= 15
    assert {edition for kinds in samples.values() for kind in kinds.values() for edition in kind} == EDITIONS.keys()
    assert "\n".join(table(samples)) in (DOCS / "results" / "price-18.md").read_text()
