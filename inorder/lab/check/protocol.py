"""The contract between the check and a reader program, documented in docs/check-protocol.md.

Each line is JSON. The check writes a ``Poll``. The program answers with a line for each key, then with an ``End``.
Later versions only add fields.
"""

from typing import Any

import msgspec

VERSION = 1
ANSWER_SECONDS = 60  # a program that is not waiting for a lock must answer within this time


class Poll(msgspec.Struct):
    """A request for a poll. ``now``: the clock of the schedule. ``last``: the last stored position, null at first."""

    now: str
    last: Any = None
    version: int = VERSION


class End(msgspec.Struct, forbid_unknown_fields=True):
    """The end of a poll. The check stores the rows of the poll together with the position ``last``."""

    last: Any = None


Line = int | str | End
DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
ENCODER = msgspec.json.Encoder()
