"""The experiments of the lab: the modules of this package, and of the folder that INORDER_EXPERIMENTS names.

The name of a module is the name of its experiment. The first line of its docstring is the help text of the command.
"""

import os
import tokenize
from ast import literal_eval
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from inorder.errors import InputError
from inorder.text import quoted

if TYPE_CHECKING:
    from inorder.lab.run.experiment import Experiment

__path__ += filter(None, [os.environ.get("INORDER_EXPERIMENTS")])


def names() -> list[str]:
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def module_of(name: str) -> str:
    return f"{__name__}.{name.replace('-', '_')}"


def summary_of(name: str) -> str:
    """Return the first line of the module's docstring without loading the module, which would take a second."""
    spec = find_spec(module_of(name))
    assert spec and spec.origin
    with tokenize.open(spec.origin) as source:
        docstring = next(tokenize.generate_tokens(source.readline)).string
    return str(literal_eval(docstring)).partition("\n")[0]


@cache
def experiment_named(name: str) -> "type[Experiment[Any]]":
    from inorder.lab.run.experiment import Experiment  # noqa: PLC0415  # see summary_of

    if name not in names():
        raise InputError(f"this version of inorder has no experiment {quoted(name)}")
    module = import_module(module_of(name))
    return next(
        member for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, Experiment) and member.__module__ == module.__name__
    )  # fmt: skip


def all_experiments() -> "dict[str, type[Experiment[Any]]]":
    return {name: experiment_named(name) for name in names()}
