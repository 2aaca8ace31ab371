"""The alert rules of the documentation: they are rules of Prometheus, over samples that inorder feeds delivers."""

import json
import re
from typing import Any

import promql_parser
import pytest
import yaml
from inorder.feeds.formats import GAUGES, LABELS

from conftest import text

OTHERS = {"node_textfile_mtime_seconds"}  # by node_exporter, of the file of samples


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(text("docs/feed-alerts.yml"))["groups"]
    assert group.keys() == {"name", "rules"}
    return list(group["rules"])


def metrics_of(expression: str) -> set[str]:
    promql_parser.parse(expression)
    without_strings = re.sub(r'"[^"]*"', "", expression)
    return set(re.findall(r"\b(?:inorder|node)_\w+", without_strings))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_can_be_evaluated(rule: dict[str, Any]) -> None:
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
    ours = {f"inorder_feed_{gauge}" for gauge in GAUGES}
    assert metrics_of(rule["expr"]) & ours and metrics_of(rule["expr"]) <= ours | OTHERS
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= set(LABELS)


def test_the_documentation_names_every_gauge() -> None:
    page = text("docs/feed-operations.md")
    assert [gauge for gauge in GAUGES if f"`{gauge}`" not in page] == []


def test_the_dashboard_shows_gauges() -> None:
    board = json.loads(text("docs/feed-dashboard.json"))
    for panel in board["panels"]:
        (target,) = panel["targets"]
        used = metrics_of(target["expr"])
        assert used and used <= {f"inorder_feed_{gauge}" for gauge in GAUGES}
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= set(LABELS)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]}
    assert len(places) == len(board["panels"]) == 6
