"""The experiments of the lab, a module each. A new one is found by being here, or in the folder INORDER_EXPERIMENTS."""

import os
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from inorder.errors import InputError
from inorder.lab.experiment import Experiment

__path__ += filter(None, [os.environ.get("INORDER_EXPERIMENTS")])


@cache
def all_experiments() -> dict[str, type[Experiment[Any]]]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found = [
        each for module in modules for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Experiment)
        and f"{each.__module__}.".startswith(f"{module.__name__}.")  # of it, or of a module of this package
    ]  # fmt: skip
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def experiment_named(name: str) -> type[Experiment[Any]]:
    if name not in all_experiments():
        raise InputError(f"this inorder knows no experiment '{name}'")
    return all_experiments()[name]
