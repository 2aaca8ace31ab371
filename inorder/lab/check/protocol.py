"""The contract between a check and a reader program: docs/check-protocol.md. Later versions only add fields.

Each line is JSON. A check writes a ``Poll``; the program answers with a line for each key, then with an ``End``.
"""

from typing import Any

import msgspec

VERSION = 1
ANSWER_SECONDS = 60  # a program that waits for no lock has to answer within this time


class Poll(msgspec.Struct):
    """A request for a poll. ``now``: the clock of the schedule. ``last``: the last stored position, null at first."""

    now: str
    last: Any = None
    version: int = VERSION


class End(msgspec.Struct, forbid_unknown_fields=True):
    """The end of a poll. The check stores the rows of the poll and the position ``last`` together."""

    last: Any = None


Line = int | str | End
DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
ENCODER = msgspec.json.Encoder()
