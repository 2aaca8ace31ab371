"""The base class of experiments. An experiment has a plan, measures a target, and reports the result."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, closing
from sys import modules
from typing import Any, ClassVar, Generic, TypeVar, get_args

from inorder.connection.database import Connection
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.plan.capabilities import Adapted, Capabilities, OwnRun, adapted
from inorder.lab.plan.setting import Plan
from inorder.lab.plan.turn import Metrics, Progress, Stage
from inorder.lab.report.section import Section
from inorder.lab.report.verdict import Verdict
from inorder.lab.results.result import Result, shortened
from inorder.lab.targets.server_settings import reading_method
from inorder.lab.targets.target import Target
from inorder.text import quoted

P = TypeVar("P", bound=Plan)

TURNS = (
    "Each round measures everything once, in shuffled order, so that a disturbance affects all measurements of the "
    "round alike; ratios are paired within a round."
)


class Experiment(ABC, Generic[P]):
    """An experiment of the lab, on one target.

    Each experiment is a module in ``lab/experiments``, and is found by its name.

    * ``name``, ``summary``: the name and the summary of the module.
    * ``Plan``: the type of its plans.
    * ``question``: the question that the first verdict answers.
    * ``studies``: the published studies that the experiment follows.
    * ``programs``: the PostgreSQL programs that it runs.
    * ``alone``: True if it needs a throw-away server.
    * ``method``: the method of measuring, or "" for the method for tables that are larger than memory.
    * ``role``: the role that it uses on a throw-away server, or "" for the superuser.
    * ``checkpoints``: True if checkpoints during a measurement are expected.
    * ``order``: the order of measurements, for the report.
    * ``reports``: the module that contains sections() and verdicts(), by default the module of the experiment.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    question: ClassVar[str]
    studies: ClassVar[tuple[str, ...]] = ()
    programs: ClassVar[tuple[str, ...]] = ("pgbench",)
    alone: ClassVar[bool] = False
    role: ClassVar[str] = ""
    checkpoints: ClassVar[bool] = False
    own: ClassVar[OwnRun] = OwnRun()
    order: ClassVar[str] = TURNS
    method: ClassVar[str] = ""
    reports: ClassVar[Any]
    Plan: ClassVar[type[Plan]]

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "name"):
            cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")
            cls.summary = (modules[cls.__module__].__doc__ or "").partition("\n")[0]
        if not hasattr(cls, "Plan"):
            (cls.Plan,) = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]
        if not hasattr(cls, "reports"):
            cls.reports = modules[cls.__module__]

    def __init__(self, plan: P, target: Target, progress: Progress) -> None:
        self.plan = plan
        self.target = target
        self.progress = progress
        self.measuring = ""  # the current measurement, as shown by progress
        self.sessions = ExitStack()

    @classmethod
    @abstractmethod
    def room(cls, plan: P) -> tuple[int, str]:
        """Return the number of bytes needed on disk, and what they are used for."""

    @classmethod
    def index_room(cls, plan: P) -> tuple[str, int]:
        """Return the user's folder for indexes and their size in bytes, or "" if they are in the data directory."""
        return "", 0

    @classmethod
    def method_with(cls, plan: P, server: Installation) -> str:
        return cls.method or reading_method(server, plan)

    @classmethod
    def completed(cls, plan: P, own: bool) -> Adapted[P]:
        """Return the plan as completed before the server starts, with notes.

        ``own``: the run is on the user's server.
        """
        return Adapted(plan)

    @classmethod
    def adapt(cls, plan: P, can: Capabilities) -> Adapted[P]:
        return adapted(plan, can, cls.own)

    @abstractmethod
    def prepare(self) -> None:
        """Start the server with the settings for measuring, and create the objects that all measurements need."""

    @abstractmethod
    def stages(self) -> Sequence[Stage]:
        """Return the stages, which contain all measurements."""

    def outcome(self, metrics: Metrics) -> str:
        """Describe the result of a measurement for its progress line. By default, this is the duration."""
        return f"{metrics['seconds']:.2f} s" if "seconds" in metrics else ""

    def show_step(self, text: str) -> None:
        self.progress.step(f"{self.measuring}: {text}")

    def open_session(self, **settings: str) -> Connection:
        return self.sessions.enter_context(closing(self.target.connect(**settings)))

    def close(self) -> None:
        self.sessions.close()

    @classmethod
    def sections(cls, result: Result) -> Sequence[Section]:
        sections: Sequence[Section] = cls.reports.sections(result, cls.plan_in(result))
        return sections

    @classmethod
    def verdicts(cls, result: Result) -> Sequence[Verdict]:
        """Return the verdicts for the top of the report, or none if too little was measured."""
        verdicts: Sequence[Verdict] = cls.reports.verdicts(result, cls.plan_in(result), cls.question)
        return verdicts

    @classmethod
    def plan_in(cls, result: Result) -> P:
        try:
            return cls.Plan.read(result.plan)  # type: ignore[return-value]
        except TypeError as error:
            reason = shortened(str(error))
            raise InputError(
                f"the result's plan is not a plan of the experiment {quoted(cls.name)}: {reason}"
            ) from error
