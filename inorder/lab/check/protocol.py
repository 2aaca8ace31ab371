"""The contract between a check and a reader program: docs/check-protocol.md. Later versions only add fields.

Each line is JSON. A check writes a ``Poll``; the program answers with a line for each key, then with an ``End``.
"""

import json
from typing import Any

import msgspec

VERSION = 1
ANSWER_SECONDS = 60  # a program that waits for no lock has to answer within this time


class Poll(msgspec.Struct):
    """Requests a poll. ``now``: the clock of the schedule. ``last``: the last stored position, null at first."""

    now: str
    last: Any = None
    version: int = VERSION


class End(msgspec.Struct, forbid_unknown_fields=True):
    """Ends a poll: its rows and the position ``last`` are stored together."""

    last: Any = None


Line = int | str | End
DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
ENCODER = msgspec.json.Encoder()


def schema() -> str:
    """The JSON schema of both directions, which is kept in docs/clients/check."""
    (poll, answer), parts = msgspec.json.schema_components((Poll, Line), ref_template="#/$defs/{name}")
    text = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"inorder lab check, protocol version {VERSION}",
        "$defs": parts | {"Stdin": poll, "Stdout": answer},
        "anyOf": [{"$ref": "#/$defs/Stdin"}, {"$ref": "#/$defs/Stdout"}],
    }
    return json.dumps(text, indent=1) + "\n"
