"""What every plan has, and how one is made: of a size, from options, from a result file."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import msgspec

from inorder.lab import setting
from inorder.lab.setting import settings_of


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a run. The defaults are the usual run."""

    rounds: int = setting.rounds(6)
    seed: int = setting.count(
        "Seed of the order of measurements, and of pgbench.", 0, 2**31 - 1, 1, metavar=setting.NUMBER
    )

    @classmethod
    def of_size(cls, size: str, given: Mapping[str, object]) -> Self:
        """The plan of a size ("", "quick" or "full"), but for what is given."""
        sized = {name: one.sizes[size] for name, one in settings_of(cls).items() if size in one.sizes}
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
        """An error if the option of a setting would refuse its value; what the user's own server has is as it is."""
        usual = type(self)()
        for name, one in settings_of(type(self)).items():
            value = getattr(self, name)
            if value != getattr(usual, name) and not (own and one.of_server):
                one.type.read(one.type.show(value), one.option(name))

    def as_dict(self) -> dict[str, Any]:
        settings = settings_of(type(self))
        return {name: value for name, value in asdict(self).items() if settings[name].kept}

    def without_folders(self) -> dict[str, Any]:
        """The same for a file that may be shared: of paths, which only resuming needs, the last part."""
        paths = {name: Path(getattr(self, name)).name for name, one in settings_of(type(self)).items() if one.path}
        return self.as_dict() | paths
