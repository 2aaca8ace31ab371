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


def test_the_documentation_names_every_gauge_and_panels_of_no_other() -> None:
    page = text("docs/feed-operations.md")
    for gauge, meaning in GAUGES.items():
        assert f"| `{gauge}` | {meaning[0].lower()}{meaning[1:-1]} |" in page
    panels = re.findall(r"^\| \w+(?: \w+)? \*.*\* \| `(.*?)` \|", page, re.MULTILINE)
    assert len(panels) == 6
    for panel in panels:
        assert metrics_of(panel) <= {f"inorder_feed_{gauge}" for gauge in GAUGES}


def test_the_dashboard_has_the_panels_of_the_documentation() -> None:
    board = json.loads(text("docs/feed-dashboard.json"))
    page = text("docs/feed-operations.md")
    for panel in board["panels"]:
        (target,) = panel["targets"]
        kind = panel["type"].replace("timeseries", "time series").replace("-", " ")
        limits = ", ".join(str(step["value"]) for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:])
        assert re.search(
            rf"\| {kind} \*{re.escape(panel['title'])}\* \| `{re.escape(target['expr'])}` \| .*{limits}", page
        )
        assert metrics_of(target["expr"]) <= {f"inorder_feed_{gauge}" for gauge in GAUGES}
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= set(LABELS)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]}
    assert len(places) == len(board["panels"]) == 6
