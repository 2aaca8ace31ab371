"""Honest users, who work during the attacks. They must get correct results, and must not run mallory's code."""

import random
from collections import Counter
from dataclasses import dataclass, field

from inorder.connection.database import one_row

from load.fuzz import settings
from load.fuzz.oracles import Oracles
from load.fuzz.session import Outcome, Session
from load.fuzz.values import Relation, quote
from load.fuzz.world import HONEST, World

PATHS = (
    '"$user", public', "public", "mallory, pg_catalog, public", "mallory, public", "public, pg_catalog",
    "pg_catalog, public, mallory",
)  # fmt: skip
# Sessions set no timeouts on the server, because these would include time when the machine is suspended. The
# watchdog cancels statements that take too long.
LIMITS = "RESET ALL"
# Calls by roles that do not own the table: {t} is the table's name, {r} its regclass, {f} its feed, {o} the feed's
# owner.
READS = (
    "SELECT public.exact_count({r})",
    "SELECT public.exact_count_fold({r})",
    "SELECT * FROM public.reader_batch_rows({r}, public.reader_next_batch({r}, public.reader_start({r}), 5), "
    "NULL::{t})",
    "SELECT * FROM public.reader_batch_rows({r}, public.reader_next_batch({r}, public.reader_start({r})), NULL::{t})",
    "SELECT * FROM public.feed_peek({f}, NULL::{t}, 3, owner => {o})",
    "SELECT * FROM public.feed_peek({f}, NULL::{t}, owner => {o}) LIMIT 2",
    "SELECT * FROM public.feed_read({f}, NULL::{t}, 3, owner => {o})",
    "SELECT * FROM public.feed_read({f}, NULL::{t}, owner => {o})",
    "SELECT public.feed_apply({f}, 'SELECT pg_catalog.count(*) FROM batch'::pg_catalog.text, 3, owner => {o})",
    "SELECT public.feed_apply({f}, 'SELECT pg_catalog.count(*) FROM batch'::pg_catalog.text, owner => {o})",
    "SELECT (public.feed_take_batch({f}, 'w', 3, owner => {o})).number",
    "SELECT * FROM public.feed_take_batch({f}, 'w'::pg_catalog.text, 3, owner => {o})",
    "SELECT public.feed_fail_batch({f}, 1::pg_catalog.int8, 1::pg_catalog.int8, 'no'::pg_catalog.text, owner => {o})",
    "SELECT public.feed_retry_batch({f}, 1::pg_catalog.int8, owner => {o})",
    "SELECT * FROM public.feed_batches",
    "SELECT * FROM public.feed_batch_rows({f}, 1::pg_catalog.int8, NULL::{t}, owner => {o})",
    "SELECT * FROM public.feed_batch_rows({f}, 2::pg_catalog.int8, NULL::{t}, owner => {o})",
    "SELECT public.feed_finish_batch({f}, 1::pg_catalog.int8, owner => {o})",
    "SELECT public.feed_seek({f}, 'beginning'::pg_catalog.text, owner => {o})",
    "SELECT public.feed_seek({f}, '{[0,740),[745,750)}'::pg_catalog.int8multirange, owner => {o})",
    "SELECT * FROM public.feed_holders({r})",
    "SELECT * FROM public.feed_prepare({r})",
    "SELECT public.feed_create('theirs'::pg_catalog.text, {r})",
    "SELECT public.feed_grant({f}, 'nobody'::pg_catalog.regrole, owner => {o})",
    "SELECT public.feed_enable({r})",
    "SELECT public.feed_disable({r})",
    "SELECT public.feed_rebase({r}, 5::pg_catalog.int8)",
    "SELECT public.exact_count_start({r})",
    "SELECT public.exact_count_stop({r})",
    "SELECT public.feed_drop({f}, owner => {o})",
)
PLAIN = (
    "SELECT * FROM {t}", "SELECT pg_catalog.count(*) FROM {t}",
    "SELECT * FROM {t} AS e WHERE e.{c} OPERATOR(pg_catalog.>=) {low} ORDER BY e.{c} LIMIT 3",
    "SELECT pg_catalog.count(*) FROM {t} AS e WHERE e.{c} OPERATOR(pg_catalog.<) {low}",
    "SELECT * FROM {t} AS e WHERE e.{c} IS NULL",
)  # fmt: skip
# Functions that even a plain SELECT may run if the table's indexes or constraints call them. While mallory changes his
# tables, the plain SELECT that serves as a reference may have run before these indexes and constraints existed.
MAY_RUN = ("mallory.evil(", "mallory.evil_true(")
# SQLSTATEs, or prefixes of them, that mallory's changes to his own tables may cause.
EXPECTED = (
    "42", "55", "22", "23", "0A", "2B", "25", "27", "57014", "40", "53", "54", "38", "21", "P0", "3F", "3D", "09",
    "44",
)  # fmt: skip


@dataclass
class Honest:
    world: World
    rng: random.Random
    oracles: Oracles
    relations: list[Relation] = field(default_factory=list)  # mallory's tables
    delivered: dict[str, Counter[str]] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    stormy: bool = False  # true while mallory changes his tables

    def turn(self, mallory: Session) -> None:
        self.oracles.compare(mallory)
        self.oracles.check_log(mallory)
        if mallory.idle:
            mallory.run("GRANT USAGE ON SCHEMA mallory TO PUBLIC")
        self.see_feeds(mallory)
        for role in ("alice", "reader"):
            self.as_role(role, mallory)
        for role in ("postgres", "alice", "reader"):
            self.read_foreign(role, mallory)
        self.see_feeds(mallory)
        self.oracles.check_log(mallory)
        self.oracles.remember()

    def open(self, role: str) -> Session:
        """Return the role's session, or sometimes a new one, with a search_path that may contain mallory's schema."""
        session = self.sessions.get(role)
        if session is None or session.lost or self.rng.random() < 0.1:
            if session is not None:
                session.close()
            self.sessions[role] = session = self.world.session(role)
        session.statements.clear()
        session.run(LIMITS)
        session.run(f"SET search_path = {self.rng.choice(PATHS)}")
        if self.rng.random() < 0.5:
            session.run(settings.harmless(self.rng))
        return session

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    def must(self, session: Session, statement: str, mallory: Session) -> Outcome:
        outcome = session.run(statement)
        self.world.honest[f"{session.role} {'ok' if outcome.ok else outcome.state}"] += 1
        if not outcome.ok:
            self.complain("honest", f"{session.role}: {statement}: {outcome.state} {outcome.message}", session, mallory)
        if ran := self.oracles.check_log(mallory, session.pid):
            self.complain("ran", f"{ran} by {session.role}: {statement}", session, mallory)
        return outcome

    def complain(self, oracle: str, text: str, session: Session, mallory: Session) -> None:
        held = "mallory is in a transaction. " if not mallory.idle else ""
        both = Session(session.role, session.connection, session.watchdog, session.pid)
        both.statements.extend((*mallory.statements, f"-- as {session.role}", *session.statements))
        self.world.fail(oracle, held + text, both, key=text[:60])

    def see_feeds(self, mallory: Session) -> None:
        """Check that every role can read the view feeds at any time."""
        for role in ("postgres", "alice", self.rng.choice(("monitor", "reader", "nobody", "installer"))):
            session = self.open(role)
            outcome = self.must(session, "SELECT * FROM public.feeds", mallory)
            names = {row[0] for row in outcome.rows}
            if outcome.ok and role == "alice" and not {"events", "numbers", "parts"} <= names:
                self.complain("view", "alice does not see her feeds", session, mallory)

    def as_role(self, role: str, mallory: Session) -> None:
        session = self.open(role)
        for table in HONEST if role == "alice" else HONEST[:2]:
            if role == "alice":
                values = ", ".join(["(DEFAULT)"] * self.rng.randint(1, 4))
                self.must(session, f"INSERT INTO alice.{table} (n) VALUES {values}", mallory)
                if self.rng.random() < 0.3:
                    self.must(session, f"SELECT public.exact_count_fold('alice.{table}'::pg_catalog.regclass)", mallory)
            self.count(session, table, mallory)
            self.read(session, table, "mine" if (role, table) == ("reader", "events") else table, mallory)
        if role == "alice":
            self.make_feed(session, mallory)
        else:
            self.move_shared(session, mallory)

    def count(self, session: Session, table: str, mallory: Session) -> None:
        plain = f"(SELECT pg_catalog.count(*) FROM alice.{table})"
        statement = f"SELECT public.exact_count('alice.{table}'::pg_catalog.regclass), {plain}"
        for row in self.must(session, statement, mallory).rows:
            if row[0] != row[1]:
                self.complain("count", f"exact_count of {table} is {row[0]}, count(*) is {row[1]}", session, mallory)

    def read(self, session: Session, table: str, feed: str, mallory: Session) -> None:
        delivered = self.delivered.setdefault(f"{session.role} {feed}", Counter())
        size = self.rng.choice(("", ", 2", ", 1000"))
        statement = f"SELECT n FROM public.feed_read('{feed}'::pg_catalog.text, NULL::alice.{table}{size})"
        for _ in range(40):
            rows = self.must(session, statement, mallory).rows
            delivered.update(str(row[0]) for row in rows)
            if not rows:
                break
        twice = [number for number, times in delivered.items() if times > 1]
        stored = {str(row[0]) for row in self.world.admin.execute(f"SELECT n FROM alice.{table}".encode())}
        if twice or stored != set(delivered):
            wrong = f"twice {twice}, missing {stored - set(delivered)}, made up {set(delivered) - stored}"
            self.complain("feed", f"{feed} of {session.role}: {wrong}", session, mallory)

    def make_feed(self, session: Session, mallory: Session) -> None:
        name = f"'new {self.rng.randrange(5)}'::pg_catalog.text"
        self.must(session, f"SELECT public.feed_create({name}, 'alice.secret'::pg_catalog.regclass)", mallory)
        self.must(session, f"SELECT public.feed_drop({name})", mallory)

    def move_shared(self, session: Session, mallory: Session) -> None:
        name, owner = "'shared'::pg_catalog.text", "owner => 'alice'::pg_catalog.regrole"
        take = f"SELECT number, token FROM public.feed_take_batch({name}, 'w'::pg_catalog.text, 3, {owner})"
        batch = self.must(session, take, mallory).rows
        if batch and batch[0][0] is not None:
            rows = f"SELECT n FROM public.feed_batch_rows({name}, {batch[0][0]}, NULL::alice.events, {owner})"
            self.must(session, rows, mallory)
            finish = f"SELECT public.feed_finish_batch({name}, {batch[0][0]}, {batch[0][1]}, {owner})"
            self.must(session, finish, mallory)

    def read_foreign(self, role: str, mallory: Session) -> None:
        session = self.open(role)
        session.run("SET lock_timeout = '30ms'")  # mallory may have locked his tables
        relations = self.known()
        for relation in self.rng.sample(relations, min(len(relations), 4 if role == "postgres" else 2)):
            session.run("BEGIN")
            allowed = self.run_plain(session, relation, mallory)
            for read in self.rng.choices(READS, k=6):
                self.compare_read(session, relation, read, allowed, mallory)
            if session.lost:
                return
            session.run(self.rng.choice(("COMMIT", "ROLLBACK")))
            if role == "postgres" and self.rng.random() < 0.2:
                self.perform_prepare(session, relation, allowed, mallory)

    def perform_prepare(self, session: Session, relation: Relation, allowed: set[str], mallory: Session) -> None:
        name = f"{quote(relation.name)}::pg_catalog.regclass"
        for (statement,) in session.run(f"SELECT * FROM public.feed_prepare({name})").rows:
            self.judge(session, session.run(str(statement)), mallory)
            ran = set(self.oracles.check_log(mallory, session.pid)) - allowed
            if ran and not self.stormy:
                self.complain("ran", f"{ran} by {session.role}: {statement}", session, mallory)

    def known(self) -> list[Relation]:
        admin, exists = self.world.admin, "SELECT to_regclass(%s) IS NOT NULL"
        readable = {name for (name,) in admin.execute("SELECT relation::text FROM inorder_internal.feed_table")}
        existing = [relation for relation in self.relations if one_row(admin, exists, [relation.name])[0]]
        return [relation for relation in existing if relation.name in readable or self.rng.random() < 0.2]

    def run_plain(self, session: Session, relation: Relation, mallory: Session) -> set[str]:
        """Return mallory's functions that a plain SELECT runs, in this session and in a new session.

        In a new session, the server also runs functions to simplify the table's expressions.
        """
        self.oracles.check_log(mallory, session.pid)
        fresh = self.world.session(session.role)
        ran: set[str] = set()
        for selecting in (fresh, session):
            selecting.run("SET lock_timeout = '30ms'")
            self.select(selecting, relation)
            ran.update(self.oracles.check_log(mallory, selecting.pid))
        fresh.close()
        return ran

    def select(self, session: Session, relation: Relation) -> None:
        low = "'00000000-0001-8000-8000-000000000000'::pg_catalog.uuid" if relation.is_uuid else "7::pg_catalog.int8"
        for plain in PLAIN:
            text = plain.replace("{t}", relation.name).replace("{c}", relation.column).replace("{low}", low)
            for statement in [text] if session.idle else ["SAVEPOINT s", text, "ROLLBACK TO s"]:
                session.run(statement)

    def compare_read(
        self, session: Session, relation: Relation, read: str, allowed: set[str], mallory: Session
    ) -> None:
        """Run one of READS after a savepoint, so that the transaction continues after an error."""
        session.run("SAVEPOINT s")
        statement = (
            read.replace("{t}", relation.name).replace("{r}", f"{quote(relation.name)}::pg_catalog.regclass")
            .replace("{f}", f"{quote(relation.feed)}::pg_catalog.text")
            .replace("{o}", f"'{relation.owner}'::pg_catalog.regrole")
        )  # fmt: skip
        outcome = session.run(statement)
        self.judge(session, outcome, mallory)
        ran = [run for run in self.oracles.check_log(mallory, session.pid) if run not in allowed]
        if self.stormy:
            ran = [run for run in ran if not run.startswith(MAY_RUN)]
        if ran:
            self.complain("ran", f"{ran} by {session.role}: {statement}", session, mallory)
        if session.failed or self.rng.random() < 0.2:
            session.run("ROLLBACK TO s")

    def judge(self, session: Session, outcome: Outcome, mallory: Session) -> None:
        self.world.honest[f"{session.role} on mallory's {'ok' if outcome.ok else outcome.state[:2]}"] += 1
        # The table in NULL::table may be dropped before the server looks up its columns.
        was_dropped = (
            self.stormy and "could not open relation with OID" in outcome.message and "NULL::" in outcome.statement
        )
        if not was_dropped:
            self.oracles.check_errors(session, outcome)
        self.oracles.check_time(session, outcome)
        if not outcome.ok and not outcome.state.startswith(EXPECTED) and outcome.state != "XX000":
            self.complain("honest", f"{outcome.state} {outcome.message}: {outcome.statement}", session, mallory)
