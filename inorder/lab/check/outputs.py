"""The result of a check as JUnit XML and SARIF for other tools, and as a record that a project can commit."""

import hashlib
import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from inorder import __version__
from inorder.lab.check.arena import RANDOM_LOAD
from inorder.lab.check.history import FAULTS
from inorder.lab.check.run import Amount
from inorder.lab.check.verdict import MEANINGS, Checked, drawn, in_words, sentence
from inorder.lab.check.ways import Way
from inorder.text import one_line

DESCRIPTIONS = ("name", "title", "project", "version", "source", "run", "note", "verdict")  # fields of a way
PAGE = "https://json.schemastore.org/sarif-2.1.0.json"


def as_junit(checks: Sequence[Checked], fail_on: Sequence[str]) -> str:
    """Return JUnit XML with a test suite for each reader and a test for each case.

    A failed test contains the diagram of its schedule.
    """
    root = ElementTree.Element("testsuites", name="inorder lab check")
    for checked in checks:
        name, title = one_line(checked.way.name), one_line(checked.way.title)
        suite = ElementTree.SubElement(root, "testsuite", name=title, tests=str(len(checked.outcomes)))
        for outcome in checked.outcomes:
            test = ElementTree.SubElement(suite, "testcase", classname=name, name=outcome.case)
            if outcome.note and not outcome.schedules and outcome.case != RANDOM_LOAD:
                ElementTree.SubElement(test, "skipped", message=outcome.note)
            for fault in (fault for fault in outcome.failures if fault in fail_on):
                failure = outcome.failures[fault]
                failed = ElementTree.SubElement(test, "failure", type=fault, message=in_words(fault, failure))
                failed.text = drawn(failure)
        suite.set("failures", str(len(suite.findall(".//failure"))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def as_sarif(checks: Sequence[Checked], place: str) -> str:
    """Return SARIF with a result for each fault of a reader. All results refer to the file ``place``."""
    rules = [{"id": fault, "shortDescription": {"text": MEANINGS[fault]}} for fault in FAULTS]
    results = [
        {
            "ruleId": fault,
            "level": "note" if fault in ("disorder", "stalled") else "error",
            "message": {"text": f"{checked.way.title}: {sentence(checked)}\n\n{drawn(failure)}".strip()},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": place}}}],
        }
        for checked in checks
        for fault, (_case, failure) in checked.worst.items()
    ]
    driver = {"name": "inorder lab check", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": PAGE, "version": "2.1.0", "runs": [run]}, indent=1)


def is_file(word: str) -> bool:
    """Return True if a word of a command names a file. Return False if the word is not a valid file name."""
    with suppress(OSError):
        return Path(word).is_file()
    return False


def place_of(ways: Sequence[Way], file: Path | None) -> str:
    """Return the file that findings refer to: the file of readers, else a file of the program's command, else "."."""
    words = shlex.split(ways[0].program) if ways else []
    return next((word for word in ([str(file)] if file else words) if is_file(word)), ".")


def hash_of(way: Way) -> str:
    """Return a hash of the fields that define a reader and of the files that its command names."""
    texts = [str(getattr(way, field.name)) for field in fields(way) if field.name not in DESCRIPTIONS]
    programs = [Path(word) for word in shlex.split(way.program) if is_file(word)]
    parts = [text.encode() for text in texts] + [file.read_bytes() for file in programs]
    return hashlib.sha256(b"\0".join(hashlib.sha256(content).digest() for content in parts)).hexdigest()


def as_record(checks: Sequence[Checked], server: str, amount: Amount) -> str:
    """Return JSON that changes only if the tool, the server, the options, the reader or the reader's result changes."""
    readers: list[dict[str, Any]] = [
        {"reader": checked.way.title, "sha256": hash_of(checked.way), "verdict": sentence(checked),
         "faults": {fault: case for fault, (case, _failure) in checked.worst.items()},
         "schedules": {case.case: case.schedules for case in checked.outcomes if case.schedules}}
        for checked in checks
    ]  # fmt: skip
    place = {"inorder": __version__, "server": server}
    return json.dumps(place | {"load": amount.load, "seed": amount.seed, "readers": readers}, indent=1) + "\n"
