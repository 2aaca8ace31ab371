"""Facts about a server, recorded by record_advice.py. With these facts, tests run inorder advise without a server."""

import json
from typing import Any

from inorder.advise.facts import ColumnFacts, Facts, IndexFacts, Leaf, ServerFacts, Statement, Statistic
from inorder.advise.statements import understood

from conftest import text


def leaf_of(data: dict[str, Any]) -> Leaf:
    parts = {
        "indexes": [IndexFacts(**index) for index in data["indexes"]],
        "columns": {int(number): ColumnFacts(**column) for number, column in data["columns"].items()},
        "statistics": {int(number): Statistic(**statistic) for number, statistic in data["statistics"].items()},
    }
    return Leaf(**data | parts)


def recorded_facts() -> Facts:
    data = json.loads(text("test/python/recorded/advice.json"))
    leaves = [leaf_of(leaf) for leaf in data["leaves"]]
    statements = [
        Statement(**statement | {"classification": understood(statement["text"])}) for statement in data["statements"]
    ]
    return Facts(**data | {"server": ServerFacts(**data["server"]), "leaves": leaves, "statements": statements})
