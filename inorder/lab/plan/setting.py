"""The fields of a plan: their meaning, their range, their values for each size of run, and how they are read and shown.

A field defines everything about a setting: the option of ``lab run``, its help text, the check of a value from a result
file, and whether it applies to the user's own server.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar, cast

import msgspec

from inorder import options
from inorder.errors import InputError
from inorder.options import Value
from inorder.text import quoted

T = TypeVar("T")
KEY = "setting"
LEAST_MEMORY = 2**20
MOST_SECONDS = 43_200  # half a day, which is less than the maximum of checkpoint_timeout
QUICK, FULL = "quick", "full"
COUNT, NUMBER, SECONDS, TABLE, COLUMN = "COUNT", "NUMBER", "SECONDS", "TABLE", "COLUMN"
SIZES = ("", QUICK, FULL)


@dataclass(frozen=True)
class Setting(Generic[T]):
    """A field of a plan, and the option that sets it. ``type`` is the type of the values.

    * ``asked``: there is an option for the field.
    * ``of_server``: the field is a setting of a throw-away server.
    * ``capability``: on the user's own server, the value is this field of Capabilities.
    * ``sessions``: the field is a number of concurrent sessions.
    * ``path``: the field is a path on this machine.
    * ``kept``: the field is stored in the result file.

    The remaining fields are functions of a value that is a name:

    * ``needs_inorder`` returns True if the value needs the extension.
    * ``contrib`` returns the contrib extension that the value needs, or "".
    * ``since`` returns the major version that the value needs.
    * ``label`` returns the label of the value.
    """

    help: str
    type: Value[T]
    flag: str = ""
    asked: bool = True
    of_server: bool = False
    capability: str = ""
    sessions: bool = False
    path: bool = False
    kept: bool = True
    needs_inorder: Callable[[str], bool] | None = None
    contrib: Callable[[str], str] | None = None
    since: Callable[[str], int] | None = None
    label: Callable[[str], str] = str
    sizes: MappingProxyType[str, T] = field(default_factory=lambda: MappingProxyType({}))

    def option(self, name: str) -> str:
        return self.flag or "--" + name.replace("_", "-")


def settings_of(plan: type) -> dict[str, "Setting[object]"]:
    return {field.name: cast("Setting[object]", field.metadata[KEY]) for field in fields(plan)}


def of(
    type: Value[T], help: str, usual: T | None, *, quick: T | None = None, full: T | None = None,
    factory: Callable[[], T] | None = None, **more: Any,
) -> T:  # fmt: skip
    """Define a field of a plan: the type of its option, its help text, its value for each size of run.

    ``more``: other fields of Setting.
    """
    sizes = MappingProxyType({size: value for size, value in ((QUICK, quick), (FULL, full)) if value is not None})
    metadata = {KEY: Setting(help, type, sizes=sizes, **more)}
    plan_field: Any = (
        field(default_factory=factory, metadata=metadata) if factory else field(default=usual, metadata=metadata)
    )
    return cast(T, plan_field)


def count(help: str, lowest: int, highest: int, usual: int | None = None, metavar: str = COUNT, **more: Any) -> int:
    return of(options.count(lowest, highest, metavar), help, usual, **more)


def counts(help: str, lowest: int, highest: int, usual: tuple[int, ...], **more: Any) -> tuple[int, ...]:
    return of(options.several(options.count(lowest, highest)), help, usual, **more)


def rounds(usual: int, full: int | None = None, **more: Any) -> int:
    note = "; full has fewer, but longer rounds" if full is not None and full < usual else ""
    return count(f"Number of rounds{note}.", 1, 1000, usual, full=full, **more)


def seconds(usual: int, **more: Any) -> int:
    return count("Seconds of each measurement.", 1, MOST_SECONDS, usual, metavar=SECONDS, **more)


def threads() -> int:
    return count("Threads of pgbench.", 1, 1024, asked=False, factory=lambda: len(os.sched_getaffinity(0)))


def optional_count(help: str, lowest: int, highest: int, **more: Any) -> int | None:
    return of(cast("Value[int | None]", options.count(lowest, highest)), help, None, **more)


def optional_bytes(help: str, lowest: int) -> int | None:
    """Define a size that applies to the throw-away server, None by default."""
    return of(cast("Value[int | None]", options.size(lowest)), help, None, of_server=True)


def choices(
    help: str, allowed: Collection[str], usual: tuple[str, ...] = (), listed: Collection[str] = (), **more: Any
) -> tuple[str, ...]:
    """Define a choice of several allowed names. The default is ``usual`` or, if it is empty, all allowed names."""
    return of(options.several(options.one_of(allowed, listed)), help, usual or tuple(allowed), **more)


def choice(help: str, allowed: Sequence[str], usual: str, **more: Any) -> str:
    return of(Value(f"[{'|'.join(allowed)}]", options.one_of(allowed).read, str), help, usual, **more)


def synchronous_commit(usual: str, **more: Any) -> str:
    text = "Make commits wait for the disk: on or off."
    return choice(text, ("on", "off"), usual, of_server=True, capability="synchronous_commit", **more)


def memory(usual: int, help: str = "shared_buffers while measuring.", **more: Any) -> int:
    return of(
        options.size(LEAST_MEMORY), help, usual, flag="--memory", of_server=True, capability="shared_buffers", **more
    )


def duration(help: str, usual: float, lowest: float = 0.01, **more: Any) -> float:
    return of(options.duration(lowest), help, usual, **more)


def durations(help: str, usual: tuple[float, ...]) -> tuple[float, ...]:
    return of(options.several(options.duration(0)), help, usual)


def without_nul(text: str, option: str) -> str:
    if "\0" in text:
        raise InputError(f"{option} contains a null character")
    return text


def words(help: str, metavar: str, *, check: Callable[[str], object] = str) -> str:
    """Define a string, "" by default. If ``check`` raises ValueError, the option's name precedes its message."""

    def read(text: str, option: str) -> str:
        try:
            check(text)
        except ValueError as error:
            raise InputError(f"{option}: {error}") from error
        return without_nul(text, option)

    return of(Value(metavar, read, str), help, "")


def server(help: str) -> str:
    """Define a connection string. It is not stored, because a result file should not reveal a server's address."""
    return of(options.DSN, help, "", kept=False)


def names(help: str) -> tuple[str, ...]:
    """Define a comma-separated list of column names, as in the catalog, empty by default."""

    def read(text: str, option: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, map(str.strip, without_nul(text, option).split(",")))))

    return of(Value(f"{COLUMN},…", read, ",".join), help, ())


# The type of a field without an option. Its values are checked when a result file is read.
UNASKED: "Value[Any]" = Value("", lambda _text, _option: None, str)


def determined() -> Any:
    """Define a value that the lab determines itself and stores in the result file. It has no option."""
    return of(UNASKED, "", None, asked=False)


def switch(usual: bool) -> bool:
    return of(cast("Value[bool]", UNASKED), "", usual, asked=False)


def file(help: str) -> str:
    def read(text: str, option: str) -> str:
        path = Path(text).absolute()
        if not path.is_file():
            raise InputError(f"{option} must be an existing file, not {quoted(text)}")
        return str(path)

    return of(Value("FILE", read, str), help, "", path=True)


def folder(help: str, *, flag: str = "") -> str:
    """Define the absolute path of an existing folder, "" by default."""

    def read(text: str, option: str) -> str:
        path = Path(text).absolute()
        if not path.is_dir():
            raise InputError(f"{option} must be an existing folder, not {quoted(text)}")
        return str(path)

    return of(Value("DIRECTORY", read, str), help, "", flag=flag, of_server=True, path=True)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a run. The defaults are the settings of the usual run."""

    rounds: int = rounds(6)
    seed: int = count("Seed of the order of measurements, and of pgbench.", 0, 2**31 - 1, 1, metavar=NUMBER)

    @classmethod
    def of_size(cls, size: str, given: Mapping[str, object]) -> Self:
        """Return the plan of a size ("", "quick" or "full"). The given values override those of the size."""
        sized = {name: setting.sizes[size] for name, setting in settings_of(cls).items() if size in setting.sizes}
        return replace(cls(), **(sized | dict(given)))  # type: ignore[arg-type]

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Self:
        if unknown := values.keys() - settings_of(cls).keys():
            raise TypeError(f"there is no setting {sorted(unknown)[0]}")
        try:
            return msgspec.convert(dict(values), cls)
        except msgspec.ValidationError as error:
            raise TypeError(str(error)) from error

    def require_allowed(self, own: bool) -> None:
        """Refuse values that the option of a setting would refuse.

        ``own``: the run is on the user's own server, whose settings are not checked.
        """
        usual = type(self)()
        for name, setting in settings_of(type(self)).items():
            value = getattr(self, name)
            if value != getattr(usual, name) and not (own and setting.of_server):
                setting.type.read(setting.type.show(value), setting.option(name))

    def as_dict(self) -> dict[str, Any]:
        settings = settings_of(type(self))
        return {name: value for name, value in asdict(self).items() if settings[name].kept}

    def without_folders(self) -> dict[str, Any]:
        """Return the plan for a file that may be shared. Paths are reduced to their last component.

        Only a resumed run needs the whole paths.
        """
        paths = {
            name: Path(getattr(self, name)).name for name, setting in settings_of(type(self)).items() if setting.path
        }
        return self.as_dict() | paths
