"""The fields of a plan: what each means, its range, its value in each size of run, and how it is typed and shown.

A field made here is all that is said of a setting. The option of ``lab run``, its help, the check of a value from a
result file, and whether it applies to the user's own server all follow from it.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from inorder import options
from inorder.errors import InputError
from inorder.options import Value

T = TypeVar("T")
KEY = "setting"
LEAST_MEMORY = 2**20
MOST_SECONDS = 43_200  # half a day: after a whole one a server makes a checkpoint, whatever its settings
QUICK, FULL = "quick", "full"
COUNT, NUMBER, SECONDS, TABLE, COLUMN = "COUNT", "NUMBER", "SECONDS", "TABLE", "COLUMN"
SIZES = ("", QUICK, FULL)


@dataclass(frozen=True)
class Setting(Generic[T]):
    """How a field of a plan is asked for. ``type`` is what its option takes, or would take.

    ``asked``: there is an option for it. ``of_server``: it says how a throw-away server is started; the user's own is
    as it is, and ``found`` names what of its capabilities is the value there. ``sessions``: so many sessions are open
    at once. ``kept``: it is in the result file. ``needs_inorder``, ``contrib`` and ``label`` are of names: whether
    they need the extension, which of PostgreSQL's own they need ("" for none), and what they are called. ``path``: of a
    file or folder of this machine.
    """

    help: str
    type: Value[T]
    flag: str = ""
    asked: bool = True
    of_server: bool = False
    found: str = ""
    sessions: bool = False
    path: bool = False
    kept: bool = True
    needs_inorder: Callable[[str], bool] | None = None
    contrib: Callable[[str], str] | None = None
    label: Callable[[str], str] = str
    sizes: MappingProxyType[str, T] = field(default_factory=lambda: MappingProxyType({}))

    def option(self, name: str) -> str:
        return self.flag or "--" + name.replace("_", "-")


def settings_of(plan: type) -> dict[str, "Setting[object]"]:
    return {one.name: cast("Setting[object]", one.metadata[KEY]) for one in fields(plan)}


def made(setting: Setting[T], usual: T | None, factory: Callable[[], T] | None = None) -> T:
    """A field of a dataclass; its type is that of its values."""
    if factory is not None:
        made_here: T = field(default_factory=factory, metadata={KEY: setting})
        return made_here
    return cast(T, field(default=usual, metadata={KEY: setting}))


def in_sizes(quick: T | None, full: T | None) -> MappingProxyType[str, T]:
    """The values of the short run and of that of the published sizes, where they differ from the usual one."""
    return MappingProxyType({size: value for size, value in ((QUICK, quick), (FULL, full)) if value is not None})


def count(
    help: str,
    lowest: int,
    highest: int,
    usual: int | None = None,
    *,
    quick: int | None = None,
    full: int | None = None,
    flag: str = "",
    asked: bool = True,
    sessions: bool = False,
    factory: Callable[[], int] | None = None,
    metavar: str = COUNT,
) -> int:
    sizes = in_sizes(quick, full)
    type = options.count(lowest, highest, metavar)
    sizes = in_sizes(quick, full)
    return made(Setting(help, type, flag, asked, sessions=sessions, sizes=sizes), usual, factory)


def rounds(usual: int, *, quick: int | None = None, full: int | None = None) -> int:
    return count("Number of rounds.", 1, 1000, usual, quick=quick, full=full)


def threads() -> int:
    """Threads of pgbench: as many as this process has cores."""
    return count("Threads of pgbench.", 1, 1024, asked=False, factory=lambda: len(os.sched_getaffinity(0)))


def optional_count(help: str, lowest: int, highest: int, *, of_server: bool = False) -> int | None:
    type = cast("Value[int | None]", options.count(lowest, highest))
    return made(Setting(help, type, of_server=of_server), None)


def optional_bytes(help: str, lowest: int) -> int | None:
    """A size of the throw-away server's, or None unless it is given."""
    return made(Setting(help, cast("Value[int | None]", options.size(lowest)), of_server=True), None)


def counts(
    help: str,
    lowest: int,
    highest: int,
    usual: tuple[int, ...],
    *,
    quick: tuple[int, ...] | None = None,
    full: tuple[int, ...] | None = None,
    flag: str = "",
    sessions: bool = False,
) -> tuple[int, ...]:
    type = options.several(options.count(lowest, highest))
    return made(Setting(help, type, flag, sessions=sessions, sizes=in_sizes(quick, full)), usual)


def choices(
    help: str,
    known: Sequence[str],
    usual: tuple[str, ...] = (),
    *,
    quick: tuple[str, ...] | None = None,
    full: tuple[str, ...] | None = None,
    flag: str = "",
    asked: bool = True,
    needs_inorder: Callable[[str], bool] | None = None,
    contrib: Callable[[str], str] | None = None,
    label: Callable[[str], str] = str,
) -> tuple[str, ...]:
    """Several of the known names; all of them unless ``usual`` says which."""

    def read(name: str, option: str) -> str:
        if name not in known:
            raise InputError(f"{option} has unknown {name!r}; there are {', '.join(known)}")
        return name

    setting = Setting(
        help, options.several(Value("NAME", read, str)), flag, asked, needs_inorder=needs_inorder, contrib=contrib,
        label=label, sizes=in_sizes(quick, full),
    )  # fmt: skip
    return made(setting, usual or tuple(known))


def choice(
    help: str, known: Sequence[str], usual: str, *, full: str | None = None, flag: str = "", found: str = ""
) -> str:
    def read(name: str, option: str) -> str:
        if name not in known:
            raise InputError(f"{option} is {' or '.join(known)}, not '{name}'")
        return name

    type = Value(f"[{'|'.join(known)}]", read, str)
    return made(Setting(help, type, flag, of_server=bool(found), found=found, sizes=in_sizes(None, full)), usual)


def synchronous_commit(usual: str, *, full: str | None = None) -> str:
    text = "Whether commits wait for the disk: on or off."
    return choice(text, ("on", "off"), usual, full=full, found="synchronous_commit")


def memory(
    usual: int,
    help: str = "shared_buffers while measuring.",
    *,
    quick: int | None = None,
    full: int | None = None,
) -> int:
    type, sizes = options.size(LEAST_MEMORY), in_sizes(quick, full)
    return made(Setting(help, type, "--memory", of_server=True, found="shared_buffers", sizes=sizes), usual)


def duration(
    help: str, usual: float, *, quick: float | None = None, full: float | None = None, lowest: float = 0.01
) -> float:
    return made(Setting(help, options.duration(lowest), sizes=in_sizes(quick, full)), usual)


def durations(help: str, usual: tuple[float, ...]) -> tuple[float, ...]:
    return made(Setting(help, options.several(options.duration(0))), usual)


def words(help: str, metavar: str, *, check: Callable[[str], object] = str) -> str:
    """A text, or ""; ``check`` raises an error that is explained by the name of the option."""

    def read(text: str, option: str) -> str:
        try:
            check(text)
        except ValueError as error:
            raise InputError(f"{option}: {error}") from error
        if "\0" in text:
            raise InputError(f"{option} has a NUL character")
        return text

    return made(Setting(help, Value(metavar, read, str)), "")


def server(help: str) -> str:
    """A connection string; a result file says nothing of where a server is."""
    return made(Setting(help, options.DSN, kept=False), "")


def names(help: str) -> tuple[str, ...]:
    def read(text: str, option: str) -> tuple[str, ...]:
        if "\0" in text:
            raise InputError(f"{option} has a NUL character")
        return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))

    return made(Setting(help, Value(f"{COLUMN},…", read, ",".join)), ())


UNASKED: "Value[Any]" = Value("", lambda _text, _option: None, str)  # of anything: the file's reader has its type


def found() -> Any:
    """A value that the lab finds out and no option asks for: kept in the file."""
    return made(Setting("", UNASKED, asked=False), None)


def file(help: str) -> str:
    """An absolute path of a file that is there, or ""."""

    def read(text: str, option: str) -> str:
        path = Path(text).absolute()
        if not path.is_file():
            raise InputError(f"{option} {path} is not a file")
        return str(path)

    return made(Setting(help, Value("FILE", read, str), path=True), "")


def folder(help: str, *, flag: str = "") -> str:
    """An absolute path of a folder that is there, or ""."""

    def read(text: str, _option: str) -> str:
        path = Path(text).absolute()
        if not path.is_dir():
            raise InputError(f"{path} is not a folder")
        return str(path)

    return made(Setting(help, Value("DIRECTORY", read, str), flag, of_server=True, path=True), "")


def switch(usual: bool) -> bool:
    setting: Setting[bool] = Setting("", UNASKED, asked=False)
    return made(setting, usual)
