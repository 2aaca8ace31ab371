"""What a query says of its source: options as Spark passes them, text by name, checked before they are used.

Connection strings with a password are refused: options are part of a query's plan, which Spark sends to executors and
may write into logs or a catalog.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

from inorder.connection.database import SECRETS
from inorder.errors import InputError

DEFAULT_NAME = "server"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
OF_A_SERVER = ("dsn", "dsn_env", "read_dsn", "read_dsn_env", "table")
GENERAL = ("max_rows", "parts", "start", "end", "whole_transactions", "wait", "accept_origin", "shards")
DEFAULT_ROWS, MOST_ROWS = 1_000_000, 2**31 - 1
MOST_PARTS = 10_000  # of reader_split()
DEFAULT_WAIT, LONGEST_WAIT = 60, 86_400


@dataclass(frozen=True)
class Address:
    """Where a server is: a connection string without a password, or the environment variable that has any."""

    text: str
    is_variable: bool = False

    def dsn(self) -> str:
        """The connection string, on the machine that connects."""
        if not self.is_variable:
            return self.text
        try:
            return os.environ[self.text]
        except KeyError:
            raise InputError(f"the environment variable {self.text} is not set on this machine") from None


@dataclass(frozen=True)
class Server:
    """A server of the stream: where its positions are found, and where its rows are read."""

    name: str
    table: str
    plan: Address
    read: Address


@dataclass(frozen=True)
class Options:
    servers: tuple[Server, ...]
    max_rows: int | None
    parts: int
    start: str
    end: str | None
    whole_transactions: bool
    wait: int  # seconds, for a standby
    accept_origin: bool
    shards: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(server.name for server in self.servers)


def parsed(given: Mapping[str, str]) -> Options:
    """The options, checked.

    >>> parsed({"dsn": "service=shop", "table": "events", "max_rows": "500"}).max_rows
    500
    >>> parsed({"dsn": '["service=a", "service=b"]', "table": "events"}).names
    ('1', '2')
    >>> parsed({"dsn.a": "service=a", "dsn_env.b": "B_DSN", "table": "events"}).names
    ('a', 'b')
    """
    options = {key.lower(): value for key, value in given.items()}
    check_known(options)
    end = options.get("end")
    return checked(Options(
        servers=servers_of(options),
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
    """What excludes each other: shards are read where they are, which the coordinator says."""
    if options.shards and len(options.servers) > 1:
        raise InputError("the option shards excludes several servers: give the coordinator as dsn (or dsn_env)")
    if options.shards and options.servers[0].read != options.servers[0].plan:
        raise InputError("the option shards excludes read_dsn: each shard is read on its node")
    return options


def check_known(options: Mapping[str, str]) -> None:
    """A misspelled option must not be without effect."""
    for key in options:
        base, dot, name = key.partition(".")
        if key in GENERAL or (base in OF_A_SERVER and (not dot or NAME.fullmatch(name))):
            continue
        raise InputError(
            f"unknown option {key!r}\nHINT:  There are {', '.join(OF_A_SERVER + GENERAL)}; "
            f"the first {len(OF_A_SERVER)} also as dsn.NAME and so on, one for each server, where NAME has at most 63 "
            "of a-z, 0-9, _ and -."
        )


def servers_of(options: Mapping[str, str]) -> tuple[Server, ...]:
    listed = options.get("dsn", "").strip()
    if listed.startswith("["):
        options = numbered(options, list_of(listed))
    names = [key.partition(".")[2] for key in options if key.startswith(("dsn.", "dsn_env."))]
    if names and not options.keys() & {"dsn", "dsn_env"}:
        strangers = {key for key in options if "." in key and key.partition(".")[2] not in names}
        if strangers:
            raise InputError(f"option {min(strangers)!r} is of a server without dsn or dsn_env")
        return tuple(server_of(options, name, f".{name}") for name in sorted(set(names)))
    if names or any("." in key for key in options):
        raise InputError(
            "give either dsn (or dsn_env) for one server, or dsn.NAME (or dsn_env.NAME) for each of several"
        )
    return (server_of(options, DEFAULT_NAME, ""),)


def list_of(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not (isinstance(found, list) and found and all(isinstance(dsn, str) for dsn in found)):
        raise InputError('the option dsn is no list of connection strings: it must be as in ["service=a", "service=b"]')
    return found


def numbered(options: Mapping[str, str], listed: list[str]) -> dict[str, str]:
    rest = {key: value for key, value in options.items() if key != "dsn"}
    return rest | {f"dsn.{place}": dsn for place, dsn in enumerate(listed, 1)}


def server_of(options: Mapping[str, str], name: str, suffix: str) -> Server:
    plan = address_of(options, "dsn", suffix)
    if plan is None:
        raise InputError(
            "where is the server? Give the option dsn (a connection string without a password, or service=NAME) "
            "or dsn_env (an environment variable that has one)"
        )
    table = options.get(f"table{suffix}", options.get("table"))
    if not table:
        raise InputError("which table is read? Give the option table")
    return Server(name, table, plan, address_of(options, "read_dsn", suffix) or plan)


def address_of(options: Mapping[str, str], key: str, suffix: str) -> Address | None:
    text, variable = options.get(key + suffix), options.get(f"{key}_env{suffix}")
    if text is not None and variable is not None:
        raise InputError(f"the options {key}{suffix} and {key}_env{suffix} exclude each other")
    if variable is not None:
        return Address(variable, is_variable=True)
    return None if text is None else Address(without_secrets(text, key + suffix))


def without_secrets(dsn: str, option: str) -> str:
    """A connection string that others may see. No error shows it: what is wrong with it may be in its password."""
    try:
        secrets = [key for key in conninfo_to_dict(dsn) if key in SECRETS]
    except psycopg.Error:
        raise InputError(f"the option {option} is no connection string of libpq") from None
    if secrets:
        raise InputError(
            f"the option {option} has a {secrets[0]}: options are in plans, which Spark may log or store\n"
            f"HINT:  Put it into a password file or a service file of libpq, or give the name of an environment "
            f"variable that has the connection string as {option.replace('dsn', 'dsn_env', 1)}."
        )
    return dsn


def rows_of(text: str | None) -> int | None:
    if text is not None and text.strip().lower() == "all":
        return None
    return number({} if text is None else {"max_rows": text}, "max_rows", DEFAULT_ROWS, 1, MOST_ROWS)


def number(options: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    """A whole number in a range.

    >>> number({"parts": "0"}, "parts", 1, 1, 10000)
    Traceback (most recent call last):
    inorder.errors.InputError: the option parts is '0' and must be a whole number from 1 to 10,000
    """
    text = options.get(key, str(default)).strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise InputError(f"the option {key} is {text!r} and must be a whole number from {least:,} to {most:,}")
    return int(text)


def flag(options: Mapping[str, str], key: str) -> bool:
    text = options.get(key, "false").strip().lower()
    if text not in ("true", "false"):
        raise InputError(f"the option {key} is {text!r} and must be true or false")
    return text == "true"


def place_in(options: Mapping[str, str], key: str, words: tuple[str, ...], default: str) -> str:
    text = options.get(key, default).strip()
    if text.lower() in words:
        return text.lower()
    if text.startswith("{"):
        return text
    allowed = ", ".join([*words, "an offset: JSON as in the checkpoint or in the progress of a query"])
    raise InputError(f"the option {key} is {text[:100]!r} and must be {allowed}")
