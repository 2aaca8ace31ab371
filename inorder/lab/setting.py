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

from inorder.errors import InputError
from inorder.units import parse_bytes, parse_count, parse_duration, short

T = TypeVar("T")
KEY = "setting"
LEAST_MEMORY = 2**20
MOST_SECONDS = 43_200  # half a day: after a whole one a server makes a checkpoint, whatever its settings
QUICK, FULL = "quick", "full"
COUNT, NUMBER, SECONDS, SIZE, DURATION, FILE, FOLDER, DSN, TABLE, COLUMN = (
    "COUNT", "NUMBER", "SECONDS", "SIZE", "DURATION", "FILE", "DIRECTORY", "DSN", "TABLE", "COLUMN",
)  # fmt: skip
SIZES = ("", QUICK, FULL)


@dataclass(frozen=True)
class Setting(Generic[T]):
    """How a field of a plan is asked for. ``read`` takes the text and the name of the option, for its errors.

    ``asked``: there is an option for it. ``of_server``: it says how a throw-away server is started; the user's own is
    as it is, and ``found`` names what of its capabilities is the value there. ``sessions``: so many sessions are open
    at once. ``kept``: it is in the result file. ``needs_inorder``, ``contrib`` and ``label`` are of names: whether
    they need the extension, which of PostgreSQL's own they need ("" for none), and what they are called. ``path``: of a
    file or folder of this machine. ``metavar``: what the help shows in the place of a value.
    """

    help: str
    read: Callable[[str, str], T]
    show: Callable[[T], str]
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
    metavar: str = COUNT

    def option(self, name: str) -> str:
        """The option of a field of that name."""
        return self.flag or "--" + name.replace("_", "-")


def settings_of(plan: type) -> dict[str, "Setting[object]"]:
    """The settings of a plan by name of their fields."""
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


def typed(count: int) -> str:
    """A number as one would type it.

    >>> typed(2_000_000)
    '2M'
    """
    return short(count).replace(" ", "")


def whole(lowest: int, highest: int) -> Callable[[str, str], int]:
    """Reads a number: 8, 10k, 2M."""
    return lambda text, option: parse_count(text, option, lowest, highest)


def listed(read: Callable[[str, str], T]) -> Callable[[str, str], tuple[T, ...]]:
    """Reads several, comma-separated, each once.

    >>> listed(whole(1, 9))("2,1,2", "--n")
    (2, 1)
    """
    return lambda text, option: tuple(dict.fromkeys(read(part.strip(), option) for part in text.split(",")))


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
    """A number."""
    sizes = in_sizes(quick, full)
    return made(
        Setting(help, whole(lowest, highest), typed, flag, asked, sessions=sessions, sizes=sizes, metavar=metavar),
        usual,
        factory,
    )


def rounds(usual: int, *, quick: int | None = None, full: int | None = None) -> int:
    """How often everything is measured."""
    return count("Number of rounds.", 1, 1000, usual, quick=quick, full=full)


def threads() -> int:
    """Threads of pgbench: as many as this process has cores."""
    return count("Threads of pgbench.", 1, 1024, asked=False, factory=lambda: len(os.sched_getaffinity(0)))


def optional_count(help: str, lowest: int, highest: int, *, flag: str = "", of_server: bool = False) -> int | None:
    """A number, or None unless it is given."""
    read = cast(Callable[[str, str], int | None], whole(lowest, highest))
    show: Callable[[int | None], str] = lambda number: "" if number is None else typed(number)  # noqa: E731
    return made(Setting(help, read, show, flag, of_server=of_server), None)


def optional_bytes(help: str, lowest: int) -> int | None:
    """A size of the throw-away server's, or None unless it is given."""

    def read(text: str, option: str) -> int | None:
        return parse_bytes(text, option, lowest)

    show: Callable[[int | None], str] = lambda size: "" if size is None else f"{size // 2**20}MB"  # noqa: E731
    return made(Setting(help, read, show, of_server=True, metavar=SIZE), None)


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
    """Several numbers."""
    show: Callable[[tuple[int, ...]], str] = lambda many: ",".join(map(typed, many))  # noqa: E731
    read = listed(whole(lowest, highest))
    sizes = in_sizes(quick, full)
    return made(Setting(help, read, show, flag, sessions=sessions, sizes=sizes, metavar=f"{COUNT},…"), usual)


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
        help, listed(read), ",".join, flag, asked, needs_inorder=needs_inorder, contrib=contrib, label=label,
        sizes=in_sizes(quick, full), metavar="NAME,…",
    )  # fmt: skip
    return made(setting, usual or tuple(known))


def choice(
    help: str, known: Sequence[str], usual: str, *, full: str | None = None, flag: str = "", found: str = ""
) -> str:
    """One of the known names."""

    def read(name: str, option: str) -> str:
        if name not in known:
            raise InputError(f"{option} is {' or '.join(known)}, not '{name}'")
        return name

    sizes, metavar = in_sizes(None, full), f"[{'|'.join(known)}]"
    return made(Setting(help, read, str, flag, of_server=bool(found), found=found, sizes=sizes, metavar=metavar), usual)


def synchronous_commit(usual: str, *, full: str | None = None) -> str:
    """Whether a commit waits for its flush."""
    text = "Whether commits wait for the disk: on or off."
    return choice(text, ("on", "off"), usual, full=full, found="synchronous_commit")


def memory(
    usual: int,
    help: str = "shared_buffers while measuring.",
    *,
    quick: int | None = None,
    full: int | None = None,
) -> int:
    """Bytes that the server is given."""
    read: Callable[[str, str], int] = lambda text, option: parse_bytes(text, option, LEAST_MEMORY)  # noqa: E731
    show: Callable[[int], str] = lambda size: f"{size // 2**20}MB"  # noqa: E731
    sizes = in_sizes(quick, full)
    return made(
        Setting(help, read, show, "--memory", of_server=True, found="shared_buffers", sizes=sizes, metavar=SIZE), usual
    )


def duration(
    help: str, usual: float, *, quick: float | None = None, full: float | None = None, lowest: float = 0.01
) -> float:
    """Seconds."""
    read: Callable[[str, str], float] = lambda text, option: parse_duration(text, option, lowest)  # noqa: E731
    show: Callable[[float], str] = lambda seconds: f"{seconds:g}s"  # noqa: E731
    return made(Setting(help, read, show, sizes=in_sizes(quick, full), metavar=DURATION), usual)


def durations(help: str, usual: tuple[float, ...]) -> tuple[float, ...]:
    """Several numbers of seconds, from none on."""
    read = listed(lambda text, option: parse_duration(text, option, 0))
    show: Callable[[tuple[float, ...]], str] = lambda many: ",".join(f"{seconds:g}s" for seconds in many)  # noqa: E731
    return made(Setting(help, read, show, metavar=f"{DURATION},…"), usual)


def words(help: str, metavar: str, *, check: Callable[[str], object] = str, kept: bool = True) -> str:
    """A text, or ""; ``check`` raises an error that is explained by the name of the option."""

    def read(text: str, option: str) -> str:
        try:
            check(text)
        except ValueError as error:
            raise InputError(f"{option}: {error}") from error
        if "\0" in text:
            raise InputError(f"{option} has a NUL character")
        return text

    return made(Setting(help, read, str, kept=kept, metavar=metavar), "")


def names(help: str) -> tuple[str, ...]:
    """Names of columns as they are stored, several comma-separated, or none."""

    def read(text: str, option: str) -> tuple[str, ...]:
        if "\0" in text:
            raise InputError(f"{option} has a NUL character")
        return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))

    return made(Setting(help, read, ",".join, metavar=f"{COLUMN},…"), ())


def found() -> Any:
    """What the lab finds out and no option asks for: kept in the file."""
    return made(Setting("", lambda _text, _option: None, lambda _value: "", asked=False), None)


def file(help: str) -> str:
    """An absolute path of a file that is there, or ""."""

    def read(text: str, option: str) -> str:
        path = Path(text).absolute()
        if not path.is_file():
            raise InputError(f"{option} {path} is not a file")
        return str(path)

    return made(Setting(help, read, str, path=True, metavar=FILE), "")


def folder(help: str, *, flag: str = "") -> str:
    """An absolute path of a folder that is there, or ""."""

    def read(text: str, _option: str) -> str:
        path = Path(text).absolute()
        if not path.is_dir():
            raise InputError(f"{path} is not a folder")
        return str(path)

    return made(Setting(help, read, str, flag, of_server=True, path=True, metavar=FOLDER), "")


def switch(usual: bool) -> bool:
    """Something that no option asks for."""

    def read(text: str, option: str) -> bool:
        if text not in ("yes", "no"):
            raise InputError(f"{option} is yes or no, not '{text}'")
        return text == "yes"

    return made(Setting("", read, lambda on: "yes" if on else "no", asked=False), usual)
