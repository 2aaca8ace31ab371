"""A second session of mallory, which changes his tables at random times while other roles read them."""

import random
from threading import Event, Thread

from load.fuzz import ddl
from load.fuzz.oracles import Oracles
from load.fuzz.session import Session
from load.fuzz.values import Values
from load.fuzz.world import World

SWAPS = (
    "BEGIN; ALTER TABLE {t} RENAME TO away; CREATE VIEW {t} AS SELECT *, mallory.evil(1) AS e FROM mallory.away; "
    "COMMIT",
    "BEGIN; DROP VIEW {t}; ALTER TABLE mallory.away RENAME TO {n}; COMMIT",
    "BEGIN; ALTER TABLE {t} ALTER {c} TYPE text; COMMIT",
    "SELECT public.feed_disable('{t}'::regclass)",
    "SELECT public.feed_enable('{t}'::regclass)",
    "SELECT public.feed_create('{n}', '{t}'::regclass)",
    "SELECT public.feed_drop('{n}')",
    "SELECT public.exact_count_start('{t}'::regclass)",
    "SELECT public.exact_count_fold('{t}'::regclass)",
    "SELECT count(*) FROM public.feed_read('{n}', NULL::{t}, 2)",
)


class Storm:
    def __init__(self, world: World, oracles: Oracles, values: Values) -> None:
        self.oracles, self.rng = oracles, random.Random(values.rng.random())
        self.values = Values(self.rng, values.tables, values.odd)
        self.session: Session = world.session("mallory")
        self.over = Event()
        self.thread = Thread(target=self.rage, daemon=True)

    def __enter__(self) -> "Storm":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        self.session.close()

    def rage(self) -> None:
        while not self.over.is_set() and not self.session.lost:
            outcome = self.session.run(self.statement())
            if outcome.state == "XX000" and "feed_" in outcome.statement:
                self.oracles.check_errors(self.session, outcome)
            if self.session.failed:
                self.session.run("ROLLBACK")

    def statement(self) -> str:
        """Return a statement that changes a table, its feed or its count, or gives its name to another object."""
        if self.rng.random() < 0.7:
            return ddl.change(self.rng, self.values)
        table = self.values.own(self.rng)
        return ddl.named(self.rng, self.rng.choice(SWAPS).replace("{n}", table.feed), table)
