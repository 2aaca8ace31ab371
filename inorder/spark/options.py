"""The options of a source. Spark passes them as strings, which are checked before use.

Connection strings with a password are refused. Options are part of the query plan, which Spark sends to executors and
may write to logs or to a catalog.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

from inorder.connection.database import SECRETS
from inorder.errors import InputError
from inorder.text import quoted

NAMES = (
    "dsn", "dsn_env", "read_dsn", "read_dsn_env", "table", "max_rows", "parts", "start", "end", "whole_transactions",
    "wait", "accept_origin", "shards",
)  # fmt: skip
DEFAULT_ROWS, MOST_ROWS = 1_000_000, 2**31 - 1
MOST_PARTS = 10_000  # limit in reader_split()
DEFAULT_WAIT, LONGEST_WAIT = 60, 86_400


@dataclass(frozen=True)
class Address:
    """The address of a server: a connection string without a password, or the name of an environment variable."""

    text: str
    is_variable: bool = False

    def dsn(self) -> str:
        """Return the connection string, evaluated on the machine that connects."""
        if not self.is_variable:
            return self.text
        try:
            return os.environ[self.text]
        except KeyError:
            raise InputError(f"the environment variable {self.text} is not set on this machine") from None


@dataclass(frozen=True)
class Options:
    """The options of a source. ``plan`` is the server that returns positions, ``read`` the server that returns rows."""

    table: str
    plan: Address
    read: Address
    max_rows: int | None
    parts: int
    start: str
    end: str | None
    whole_transactions: bool
    wait: int  # maximum number of seconds to wait for a standby to replay the WAL
    accept_origin: bool
    shards: bool = False


def parsed(given: Mapping[str, str]) -> Options:
    """Parse the options of a query. Raise InputError if an option is unknown, missing or invalid.

    >>> parsed({"dsn": "service=shop", "table": "events", "max_rows": "500"}).max_rows
    500
    """
    options = {key.lower(): value for key, value in given.items()}
    check_known(options)
    end = options.get("end")
    plan = address_of(options, "dsn")
    if plan is None:
        raise InputError(
            "no server is named\nHINT:  Give the option dsn (a connection string without a password, or service=NAME) "
            "or dsn_env (the name of an environment variable that has a connection string)."
        )
    if not options.get("table"):
        raise InputError("no table is named\nHINT:  Give the option table.")
    return checked(Options(
        table=options["table"],
        plan=plan,
        read=address_of(options, "read_dsn") or plan,
        max_rows=rows_of(options.get("max_rows")),
        parts=number(options, "parts", 1, 1, MOST_PARTS),
        start=place_in(options, "start", ("beginning", "now"), "beginning"),
        end=None if end is None else place_in(options, "end", (), ""),
        whole_transactions=flag(options, "whole_transactions"),
        wait=number(options, "wait", DEFAULT_WAIT, 0, LONGEST_WAIT),
        accept_origin=flag(options, "accept_origin"),
        shards=flag(options, "shards"),
    ))  # fmt: skip


def checked(options: Options) -> Options:
    """Raise InputError for options that cannot be used together."""
    if options.shards and options.read != options.plan:
        raise InputError("the options shards and read_dsn cannot be used together: each shard is read on its node")
    return options


def check_known(options: Mapping[str, str]) -> None:
    """Raise InputError for an unknown option: a misspelled option would have no effect."""
    for key in options:
        if key not in NAMES:
            raise InputError(f"unknown option {quoted(key)}\nHINT:  The options are {', '.join(NAMES)}.")


def address_of(options: Mapping[str, str], key: str) -> Address | None:
    text, variable = options.get(key), options.get(f"{key}_env")
    if text is not None and variable is not None:
        raise InputError(f"the options {key} and {key}_env cannot be used together")
    if variable is not None:
        return Address(variable, is_variable=True)
    return None if text is None else Address(without_secrets(text, key))


def without_secrets(dsn: str, option: str) -> str:
    """Raise InputError for a connection string with secrets. The message does not show the string."""
    try:
        secrets = [key for key in conninfo_to_dict(dsn) if key in SECRETS]
    except psycopg.Error:
        raise InputError(f"the option {option} is not a connection string of libpq") from None
    if secrets:
        raise InputError(
            f"the option {option} has a {secrets[0]}: options are in plans, which Spark may log or store\n"
            f"HINT:  Put the {secrets[0]} into a password file or a service file of libpq; or name an environment "
            f"variable, which has the connection string, in the option {option.replace('dsn', 'dsn_env', 1)}."
        )
    return dsn


def rows_of(text: str | None) -> int | None:
    if text is not None and text.strip().lower() == "all":
        return None
    return number({} if text is None else {"max_rows": text}, "max_rows", DEFAULT_ROWS, 1, MOST_ROWS)


def number(options: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    """Parse a whole number in a range.

    >>> number({"parts": "0"}, "parts", 1, 1, 10000)
    Traceback (most recent call last):
    inorder.errors.InputError: the option parts must be a whole number from 1 to 10,000, not "0"
    """
    text = options.get(key, str(default)).strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise InputError(f"the option {key} must be a whole number from {least:,} to {most:,}, not {quoted(text)}")
    return int(text)


def flag(options: Mapping[str, str], key: str) -> bool:
    text = options.get(key, "false").strip().lower()
    if text not in ("true", "false"):
        raise InputError(f"the option {key} must be true or false, not {quoted(text)}")
    return text == "true"


def place_in(options: Mapping[str, str], key: str, words: tuple[str, ...], default: str) -> str:
    text = options.get(key, default).strip()
    if text.lower() in words:
        return text.lower()
    if text.startswith("{"):
        return text
    allowed = ", ".join([*words, "an offset: JSON as in the checkpoint or in the progress of a query"])
    raise InputError(f"the option {key} must be {allowed}, not {quoted(text[:100])}")
