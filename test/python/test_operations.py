"""Files in docs for other programs: Prometheus rules and panels for samples of inorder feeds, and systemd units."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from inorder.feeds.formats import GAUGES, LABELS

from conftest import text

OTHERS = {"node_textfile_mtime_seconds"}  # node_exporter's own samples about the file
UNITS = [
    ("docs/systemd/export.service", "/usr/local/bin/inorder tail events --position"),
    ("docs/systemd/mailer@.service", "/usr/bin/python3 /usr/local/lib/mailer/consumer.py %i"),
]


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(text("docs/feed-alerts.yml"))["groups"]
    assert group.keys() == {"name", "rules"}
    return list(group["rules"])


def metrics_of(expression: str) -> set[str]:
    promql_parser.parse(expression)
    without_strings = re.sub(r'"[^"]*"', "", expression)
    return set(re.findall(r"\b(?:inorder|node)_\w+", without_strings))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_rule_uses_known_metrics_and_labels(rule: dict[str, Any]) -> None:
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
    our_metrics = {f"inorder_feed_{gauge}" for gauge in GAUGES}
    assert metrics_of(rule["expr"]) & our_metrics and metrics_of(rule["expr"]) <= our_metrics | OTHERS
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


def complaints(verify: str, unit: Path) -> list[str]:
    """Return the messages of systemd-analyze about the unit or its instance.

    Without a running systemd, the command may fail for other reasons.
    """
    done = subprocess.run([verify, "verify", unit], capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if unit.stem in line]


def test_the_unit_files_of_the_documentation_are_valid(tmp_path: Path) -> None:
    if (verify := shutil.which("systemd-analyze")) is None:
        pytest.skip("this system has no systemd")
    path = tmp_path / "export@.service"
    for document, command in UNITS:
        unit = text(document)
        assert f"ExecStart={command}" in unit and "KillMode=mixed\n" in unit and "Restart=on-failure\n" in unit
        unit = unit.replace(command.split(maxsplit=1)[0], "/bin/true")
        for broken in (unit.replace("KillMode", "KilMode"), unit.replace("/bin/true", "/bin/truth")):
            path.write_text(broken)
            if not complaints(verify, path):
                pytest.skip("systemd-analyze cannot verify units here")
        path.write_text(unit)
        assert complaints(verify, path) == []
