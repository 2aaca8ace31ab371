"""Recorded facts of a server, for advice without one: see record_advice.py."""

import json
from typing import Any

from inorder.advise.facts import ColumnFacts, Facts, IndexFacts, Leaf, ServerFacts, Statement, Statistic
from inorder.advise.statements import understood

from conftest import text


def leaf_of(data: dict[str, Any]) -> Leaf:
    parts = {
        "indexes": [IndexFacts(**one) for one in data["indexes"]],
        "columns": {int(number): ColumnFacts(**one) for number, one in data["columns"].items()},
        "statistics": {int(number): Statistic(**one) for number, one in data["statistics"].items()},
    }
    return Leaf(**data | parts)


def recorded_facts() -> Facts:
    data = json.loads(text("test/python/recorded/advice.json"))
    leaves = [leaf_of(one) for one in data["leaves"]]
    statements = [Statement(**one | {"known": understood(one["text"])}) for one in data["statements"]]
    return Facts(**data | {"server": ServerFacts(**data["server"]), "leaves": leaves, "statements": statements})
