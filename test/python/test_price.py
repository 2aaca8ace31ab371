"""What script/price measures: the price of the SQL edition in docs/results/price-18.md, and that of masks."""

from pathlib import Path

import psycopg
import pytest

import masks
from price import EDITIONS, MEASUREMENTS, load, table

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_table_is_of_the_kept_samples() -> None:
    samples = load(DOCS / "results" / "price-18.json.gz")
    rounds = {len(values) for kinds in samples.values() for editions in kinds.values() for values in editions.values()}
    assert samples.keys() == MEASUREMENTS.keys() and min(rounds) == max(rounds) >= 15
    assert {edition for kinds in samples.values() for kind in kinds.values() for edition in kind} == EDITIONS.keys()
    assert "\n".join(table(samples)) in (DOCS / "results" / "price-18.md").read_text()


@pytest.mark.server
def test_what_masks_cost_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By the view and the function that docs/mask.md makes."""
    monkeypatch.setattr(masks, "ROWS", 2000)
    try:
        masks.print_masks(2)
    except psycopg.errors.FeatureNotSupported as error:
        pytest.skip(str(error))
    shown = capsys.readouterr().out.splitlines()[1:]
    assert [line[:26].strip() for line in shown] == [name for name in masks.WORK if name != masks.FLOOR]
    assert all(float(line[26:]) > 0 for line in shown)
