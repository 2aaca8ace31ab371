"""The report's page in a real browser, if there is one: in light and dark mode, and at the width of a phone.

The tests need only Chromium. A probe page loads the report in a frame of each width, examines the frame, and writes the
results into its own text.
"""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest
from inorder.advise.facts import Statement
from inorder.advise.finding import Unadvised
from inorder.advise.findings import advice_of
from inorder.advise.pages import page as advice_page
from inorder.advise.polls import Poll, Understood
from inorder.advise.report import Advice, of_server
from inorder.commands.catalogue import Labelled
from inorder.lab.check.arena import Failure, Outcome
from inorder.lab.check.history import History, Judgement
from inorder.lab.check.report import page as check_page
from inorder.lab.check.schedule import Step
from inorder.lab.check.verdict import Checked
from inorder.lab.check.ways import Way
from inorder.lab.report.html import render
from inorder.lab.results.result import Result

from advice_facts import recorded_facts
from on_paper import a_result, insert_run
from replay import recorded
from waiting import PATIENCE

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (360, 390, 768, 1280)

# The script of the probe page examines the frame once per width. Property names are those of the DOM.
PROBE = """
const frame = document.querySelector("iframe"), found = {};
frame.onload = () => {
  const page = frame.contentDocument, look = frame.contentWindow;
  for (const width of %s) {
    frame.style.width = width + "px";
    const root = page.documentElement, regions = [...page.querySelectorAll(".scroll")];
    const seen = [...page.querySelectorAll("svg text, svg path, svg line")].filter(one => one.getClientRects().length);
    const named = one => one.ownerSVGElement.getAttribute("aria-label") + ": " + one.textContent;
    const outside = seen.filter(one => {
      const box = one.getBoundingClientRect(), all = one.ownerSVGElement.getBoundingClientRect();
      return box.x < all.x - 1 || box.y < all.y - 1 || box.right > all.right + 1 || box.bottom > all.bottom + 1;
    }).map(named);
    const scale = one => one.ownerSVGElement.clientWidth / one.ownerSVGElement.viewBox.baseVal.width;
    const pixels = one => parseFloat(one.getAttribute("font-size")) * scale(one);
    const small = seen.filter(one => one.localName === "text" && pixels(one) < 10).map(named);
    const wide = [...page.body.querySelectorAll("*")].filter(one =>
      !one.closest(".scroll, script") && one.getBoundingClientRect().right > root.clientWidth + 1);
    found[width] = {
      overflow: root.scrollWidth - root.clientWidth, outside, small, texts: seen.length,
      wide: wide.map(one => one.outerHTML.slice(0, 80)),
      scrolling: regions.filter(one => one.scrollWidth > one.clientWidth).length,
      right: [...page.querySelectorAll("p, dd, li, dt, h2, code")].filter(one =>
        /right|end/.test(look.getComputedStyle(one).textAlign)).map(one => one.outerHTML.slice(0, 80)),
      narrow: [...page.querySelectorAll("dd")].filter(one => one.clientWidth < width / 3).length,
      hidden: regions.filter(one => [...one.querySelectorAll("thead th")].slice(1, 2).some(second =>
        second.getBoundingClientRect().right > one.getBoundingClientRect().right + 1)).length,
      unreachable: regions.filter(one => one.tabIndex !== 0 || !one.ariaLabel).length,
    };
  }
  const colour = (selector, name) => look.getComputedStyle(page.querySelector(selector))[name];
  found.page = colour("body", "backgroundColor");
  found.text = colour("body", "color");
  found.links = [...page.querySelectorAll("a[href^='#']")].map(one => one.hash.slice(1))
    .filter(id => !page.getElementById(id));
  const ids = [...page.querySelectorAll("[id]")].map(one => one.id);
  found.twice = ids.filter((id, place) => ids.indexOf(id) !== place);
  const told = document.createElement("pre");
  told.id = "found";
  told.textContent = JSON.stringify(found);
  document.body.append(told);
};
"""


def results() -> list[Labelled]:
    """Return results of one experiment.

    Some have names that look like markup, one is empty, and others have the widest labels.
    """
    two = a_result(complete=False)
    two.plan["rows"] = [1000, 4_000_000]
    two.runs += [insert_run(kind, 1, 100.0, 17_000.0, rows=4_000_000) for kind in ("bigint", "random")]
    nothing = Result("generators", "then", "0", 1, {"rounds": 3}, {}, {}, "CPU time", [], [])
    return [
        Labelled("<first> & a name as long as some are.json", a_result()),
        Labelled("second.json", two),
        Labelled("none.json", nothing),
        *(Labelled(name, recorded(name)) for name in ("insert", "feed", "uuid_v1")),
    ]


def looked_at(folder: Path, page: str, dark: bool) -> tuple[dict[str, Any], str]:
    probe = folder / "probe.html"
    frame = f'<iframe style="height: 900px; border: 0" srcdoc="{escape(page)}"></iframe>'
    script = PROBE % json.dumps(WIDTHS)
    probe.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{frame}<script>{script}</script>", encoding="utf-8")
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
            "--enable-logging=stderr", "--virtual-time-budget=5000", f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", probe.as_uri(),
        ],
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(match.group(1).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")), str(complaints)


def brightness(colour: str) -> int:
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


@pytest.fixture(scope="module")
def page() -> str:
    return render(results())


def advice() -> Advice:
    """Return advice with each kind of finding on statements and keys, tables to leave alone, and names like markup."""
    facts, odd = recorded_facts(), f"SELECT <b>{'body, ' * 40}id FROM orders WHERE at > $1 ORDER BY at"
    statement = Understood((Poll((("", "orders"),), "at", True, True),), ("", "orders"))
    statements = [*facts.statements, Statement(odd, 100, 33, 0, 0, statement)]
    findings, _ = advice_of(replace(facts, statements=statements), 1)
    assert [finding.id for finding in findings] == ["random-key", "polling-reader", "count-all"]
    unseen = ['sizes (HINT: ANALYZE), of 1 table: "app"."grown"']
    return of_server(replace(facts, unseen=unseen), findings, [Unadvised("a", "b " * 90), Unadvised("c", "d", True)])


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_of_advice_fits_each_width_in_a_browser(tmp_path: Path, dark: bool) -> None:
    """The text is left-aligned, wraps, and is never cut off. On a phone the tables are complete."""
    page = advice_page(advice())
    assert page.count('class="card"') == 6 and "<b>" not in page
    look, complaints = looked_at(tmp_path, page, dark)
    assert complaints == "[]"
    for width in map(str, WIDTHS):
        assert (look[width]["overflow"], look[width]["wide"], look[width]["right"]) == (0, [], []), width
        assert (look[width]["unreachable"], look[width]["narrow"]) == (0, 0)
    assert look["390"]["scrolling"] == 0 and look["links"] == look["twice"] == []
    assert (brightness(look["page"]) < brightness(look["text"])) == dark


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_page_of_a_check_shows_the_fault_of_a_long_query(tmp_path: Path) -> None:
    """The query is in the first column. The answer, in the second column, must still be visible."""
    query = "SELECT id, created_at FROM events WHERE created_at > :created_at ORDER BY created_at"
    lost = Failure((Step("A", "insert"), Step("reader", "poll")), History(), Judgement(lost=("1",)))
    page = check_page(
        [Checked(Way("sql", query, query, start={"created_at": "-infinity"}), [Outcome("overlap", 3, {"lost": lost})])],
        "18.6",
    )
    assert (
        '<td class="alarm">lost in 2 steps (overlap)</td>' in page and "<strong>Yes: the reader loses rows of" in page
    )
    layouts, complaints = looked_at(tmp_path, page, False)
    assert complaints == "[]"
    for width in map(str, WIDTHS):
        assert (layouts[width]["overflow"], layouts[width]["unreachable"], layouts[width]["hidden"]) == (0, 0, 0), width


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_each_width_in_a_browser(tmp_path: Path, page: str, dark: bool) -> None:
    look, complaints = looked_at(tmp_path, page, dark)
    assert complaints == "[]"
    for width in map(str, WIDTHS):
        assert (look[width]["overflow"], look[width]["wide"], look[width]["outside"]) == (0, [], [])
        assert look[width]["unreachable"] == 0
        assert look[width]["texts"] > 50 and look[width]["small"] == []
    assert look["360"]["scrolling"] > 0
    assert look["links"] == [] and look["twice"] == []
    assert (brightness(look["page"]) < brightness(look["text"])) == dark
