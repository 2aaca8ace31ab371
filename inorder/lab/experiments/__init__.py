"""The experiments of the lab, a module each. A new one is found by being here."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from inorder.lab.experiment import Experiment


@cache
def all_experiments() -> dict[str, type[Experiment[Any]]]:
    """By name, in the order of their names."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found = [
        each for module in modules for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Experiment)
        and f"{each.__module__}.".startswith(f"{module.__name__}.")  # of it, or of a module of this package
    ]  # fmt: skip
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}
