"""Mallory's sessions, one after another. The other roles work between his statements."""

import random
import time
from collections import Counter

import psycopg
from inorder.connection.database import one_row
from inorder.installations import Installation

from load.fuzz import binary, catalogue, ddl, evil, fastpath, settings, tables, wraps
from load.fuzz.calls import Calls
from load.fuzz.catalogue import Catalogue
from load.fuzz.honest import Honest
from load.fuzz.insider import Insider
from load.fuzz.oracles import Oracles
from load.fuzz.report import Result
from load.fuzz.session import Outcome
from load.fuzz.storm import Storm
from load.fuzz.values import Values
from load.fuzz.world import RELATIONS, World, world

STATEMENTS = 250  # approximate number of statements of a session
COMPARE_EVERY = 60
TURN_EVERY = 150


class Mallory:
    def __init__(self, place: World, oracles: Oracles, honest: Honest, parts: Catalogue, number: int) -> None:
        self.world, self.oracles, self.honest = place, oracles, honest
        self.rng = random.Random(f"{place.seed} {number}")
        self.tables = tables.choose(self.rng)
        relations = [table.relation for table in self.tables]
        self.values = Values(self.rng, [*relations, *RELATIONS], list(tables.ODD_RELATIONS))
        self.calls = Calls(self.rng, parts, self.values)
        self.insider = Insider(place, parts, self.values, self.rng)
        honest.relations, honest.rng = relations, self.rng
        self.session = place.session("mallory")
        self.outcomes: Counter[str] = Counter()
        self.prepared: list[str] = []
        self.statements = 0

    def say(self, statement: str, is_call: bool = False) -> Outcome:
        outcome = self.session.run(statement)
        self.statements += 1
        if is_call:
            self.outcomes["ok" if outcome.ok else outcome.state[:2]] += 1
        self.oracles.after(self.session, outcome, is_call and "commit_around" not in statement)
        return outcome

    def prepare(self) -> None:
        self.oracles.looked = ()
        for statement in (*evil.BASE, *evil.plants(self.rng)):
            self.session.run(statement)
        for table in self.tables:
            for statement in table.make:
                self.session.run(statement)
            for statement in ddl.use(self.rng, table):
                self.say(statement)
            for _ in range(self.rng.randint(1, 4)):
                self.say(table.filled(self.rng.choice((1, 3, 30))))
            self.say(f"GRANT SELECT ON {table.relation.name} TO alice, reader")
            if self.rng.random() < 0.5:
                self.say(f"ANALYZE {table.relation.name}")

    def step(self) -> None:
        chance = self.rng.random()
        if self.session.failed and chance < 0.85:
            self.say(self.rng.choice(("ROLLBACK", "ROLLBACK", "ROLLBACK TO s")))
        elif chance < 0.62:
            self.make_call()
        elif chance < 0.66:
            binary.call(self.rng, self.session, self.oracles)
        elif chance < 0.7:
            self.call_fast()
        elif chance < 0.82:
            self.say(ddl.change(self.rng, self.values))
        elif chance < 0.9:
            self.say(settings.change(self.rng))
        else:
            self.say(self.rng.choice(wraps.TRANSACTIONS))

    def make_call(self) -> None:
        """Make a call, which may take several statements, or execute a call that was prepared earlier."""
        if self.prepared and self.rng.random() < 0.05:
            self.say(f"EXECUTE {self.rng.choice(self.prepared)}", is_call=True)
            return
        call = self.calls.any()
        sets = "reader_batch_query" in call  # this function sets planner settings for the rest of the transaction
        for statement in wraps.wrapped(self.rng, call):
            if not self.say(statement, is_call=not (sets or statement.startswith("CLOSE"))).ok:
                break
            if statement.startswith("PREPARE") and not sets:
                self.prepared.append(statement.split()[1])

    def call_fast(self) -> None:
        outcome = fastpath.call(self.rng, self.session, self.calls, self.oracles)
        self.outcomes[f"fast path {'ok' if outcome.ok else outcome.state[:2]}"] += 1

    def hold(self) -> None:
        if self.rng.random() < 0.7:
            for statement in ddl.hold(self.rng, self.values):
                if not self.say(statement).ok and self.session.failed:
                    self.say("ROLLBACK TO s")

    def turn(self) -> None:
        """Let the other roles work while mallory has an open transaction or changes his tables."""
        if self.rng.random() < 0.4:
            self.honest.stormy = True
            with Storm(self.world, self.oracles, self.values):
                self.honest.turn(self.session)
            self.honest.stormy = False
        else:
            for statement in ("ROLLBACK", "GRANT USAGE ON SCHEMA mallory TO PUBLIC"):
                self.say(statement)
            self.hold()
            self.honest.turn(self.session)

    def perform(self, deadline: float) -> None:
        """Run statements until the session ends or the deadline has passed."""
        self.prepare()
        self.oracles.remember()
        for number in range(1, self.rng.randint(STATEMENTS // 2, STATEMENTS * 3 // 2)):
            if self.session.lost or time.monotonic() > deadline:
                break
            self.step()
            if number % COMPARE_EVERY == 0:
                self.oracles.compare(self.session)
                self.oracles.check_log(self.session)
            if number % TURN_EVERY == 0:
                self.turn()
                self.say("ROLLBACK")
        if not self.session.lost and not self.session.idle:
            self.say("ROLLBACK")
        self.honest.turn(self.session)
        # In the SQL edition, the installer owns all objects, and may change them.
        if self.rng.random() < 0.4 and not self.session.lost and self.world.edition == "c":
            self.insider.turn(self.oracles, self.honest, self.session)
        self.oracles.check_log(self.session)
        self.session.close()


RUNS = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions WHERE schemaname = 'mallory'"


def run_sessions(place: World, result: Result, deadline: float, most: int | None, parts: Catalogue) -> None:
    oracles = Oracles(place)
    honest = Honest(place, place.rng, oracles)
    while time.monotonic() < deadline and (most is None or result.sessions < most):
        mallory = Mallory(place, oracles, honest, parts, result.sessions)
        mallory.perform(deadline)
        result.called += mallory.calls.called + mallory.insider.calls.called
        result.outcomes += mallory.outcomes
        result.sessions += 1
        result.statements += mallory.statements
        result.evil_runs += one_row(place.admin, RUNS)[0]
        place.clear()
        place.welcome()
    honest.close()


def run(server: Installation, seconds: float, seed: int, sessions: int | None = None, edition: str = "c") -> Result:
    result = Result(server.name, seed, seconds)
    with world(server, seed, edition) as place:
        began, parts = time.monotonic(), catalogue.read(place.admin)
        result.functions = [function.signature for function in parts.functions]
        result.offered = len(parts.functions) + len(parts.operators) + len(parts.casts) + len(parts.types)
        try:
            run_sessions(place, result, began + seconds, sessions, parts)
        except psycopg.OperationalError as error:
            place.fail("crash", f"the server is gone: {error}\n{place.cluster.log_tail()}")
        result.seconds = time.monotonic() - began
        result.honest, result.failures = place.honest, place.failures
    return result
