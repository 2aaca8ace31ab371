"""The errors that the manual documents for readers, with a name for each cause."""

import psycopg
from inorder.connection.session import index_went

# Errors after which the call can be retried.
AGAIN = {"40001": "40001", "40P01": "40P01"}
RECOVERY = "recovery"
INDEX = "index"
# Errors with the code object_not_in_prerequisite_state, after which a user may have to act. Each key is a part of the
# message or hint, and each value is the cause. A test checks that the sources contain each part.
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
    "The owner must call feed_enable": OWNER,
}


def cause_of(error: psycopg.Error, on_standby: bool = False) -> str | None:
    """Return the name of an error's cause, or None if the manual does not document the error."""
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
