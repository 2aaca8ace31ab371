"""Errors that a reader may get, according to the manual, and its reaction to each."""

import psycopg
from inorder.connection.session import index_went

# The request is impossible now, and will be possible later.
AGAIN = {"40001": "40001", "40P01": "40P01"}
RECOVERY = "recovery"
INDEX = "index"
# object_not_in_prerequisite_state: a user has to act. Parts of the message or hint, and their meaning. A test finds
# each part in the sources.
NOT_NOW = "not now"
OWNER = "owner"
PASSED = "passed"
JOINED = "joined"
KEY = "key"
GUARD = "guard"
ORIGIN = "origin"
CAUSES = {
    "newer than the snapshot of this transaction": NOT_NOW,
    "has rows of transactions that the feed has already read": PASSED,
    "may have new rows of transactions that are in the batch": JOINED,
    "was read in part": KEY,
    "was disabled or replaced since the last read": GUARD,
    "of another server or timeline": ORIGIN,
    "Let the owner call feed_enable": OWNER,
}


def cause_of(error: psycopg.Error, on_standby: bool = False) -> str | None:
    """The reason for a refusal, in a word; None if the manual does not document it."""
    if on_standby and index_went(error):
        return INDEX
    if error.sqlstate in AGAIN:
        return AGAIN[error.sqlstate]
    if isinstance(error, psycopg.errors.QueryCanceled) and "conflict with recovery" in str(error):
        return RECOVERY
    if isinstance(error, psycopg.errors.ObjectNotInPrerequisiteState):
        return next((cause for text, cause in CAUSES.items() if text in str(error)), None)
    return None


def passes(error: psycopg.Error, on_standby: bool = False) -> bool:
    return cause_of(error, on_standby) in (*AGAIN.values(), RECOVERY, INDEX, NOT_NOW, OWNER)
