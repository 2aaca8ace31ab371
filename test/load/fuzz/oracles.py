"""Invariants that must hold regardless of mallory's actions."""

import re
from dataclasses import dataclass, field

from inorder.connection.database import one_row

from load.fuzz.session import Outcome, Session
from load.fuzz.settings import WATCHED
from load.fuzz.world import World

SLOW_SECONDS = 2.0
# A call that times out after more than this time was slow: intended timeouts are shorter.
TIMED_OUT_SECONDS = 0.9
# Internal errors that the server itself raises when a role misuses its own objects: the beginning of the statement, and
# a pattern for the message and its source.
INTERNAL_ALLOWED = (
    # multirange_recv() does not check the number of ranges that it receives
    ("", r"invalid memory alloc request size .*mcxt\.c"),
    # jsonb_recv() raises this error for an unknown version
    ("", r"unsupported jsonb version number \d+ \(jsonb\.c"),
    # PREPARE p AS SELECT NULL::t; DROP TABLE t; EXECUTE p: a plan records no dependency on the types of its constants
    ("EXECUTE ", r"cache lookup failed for type \d+ \((tupdesc|lsyscache)\.c"),
    # SELECT * FROM f(NULL::t) while another session drops t: the parser has not locked t. When it reports that a
    # function in FROM has an unsupported return type, it no longer finds the name of the type
    ("SELECT ", r"cache lookup failed for type \d+ \(format_type\.c"),
)
# Functions that return as many rows as their arguments request.
SLOW_ALLOWED = ("uuid_v7_partition_bounds", "time_steps", "commit_around", "generate_series(1, 3000")
OTHERS = "relowner <> 'mallory'::regrole AND relpersistence <> 't'"
RIGHTS = {
    "roles": "SELECT a::text FROM pg_authid AS a",
    "members": "SELECT m::text FROM pg_auth_members AS m",
    "databases": "SELECT concat(oid, datdba, datacl) FROM pg_database",
    "role settings": "SELECT s::text FROM pg_db_role_setting AS s",
    "default privileges": "SELECT d::text FROM pg_default_acl AS d WHERE defaclrole <> 'mallory'::regrole",
    "schemas": "SELECT n::text FROM pg_namespace AS n WHERE nspowner <> 'mallory'::regrole AND nspname !~ "
    "'^pg_(toast_)?temp_'",
    "relations": "SELECT concat_ws('|', oid, relname, relnamespace, relowner, relacl, relkind, relrowsecurity, "
    "reloptions, relnatts) FROM pg_class WHERE {OTHERS} AND relnamespace::regnamespace::text !~ '^pg_(toast_)?temp_'",
    "columns": "SELECT concat_ws('|', attrelid, attnum, attname, atttypid, attacl) FROM pg_attribute JOIN "
    "pg_class AS c ON c.oid = attrelid WHERE {OTHERS} AND c.oid >= 16384",
    "functions": "SELECT concat_ws('|', oid, proname, pronamespace, proowner, prosecdef, provolatile, proacl, "
    "proconfig, prosrc, probin) FROM pg_proc WHERE proowner <> 'mallory'::regrole",
    "types": "SELECT concat_ws('|', oid, typname, typnamespace, typowner, typacl) FROM pg_type WHERE typowner <> "
    "'mallory'::regrole AND typnamespace::regnamespace::text !~ '^pg_(toast_)?temp_'",
    "triggers": "SELECT concat_ws('|', t.oid, tgname, tgrelid, tgfoid, tgenabled, tgargs) FROM pg_trigger AS t "
    "JOIN pg_class AS c ON c.oid = tgrelid WHERE {OTHERS}",
    "rules": "SELECT concat_ws('|', r.oid, rulename, ev_class, ev_enabled) FROM pg_rewrite AS r JOIN pg_class AS "
    "c ON c.oid = ev_class WHERE {OTHERS}",
    "operators": "SELECT o::text FROM pg_operator AS o WHERE oprowner <> 'mallory'::regrole",
    "extensions": "SELECT e::text FROM pg_extension AS e",
    "what the extension has": "SELECT concat_ws('|', classid, objid) FROM pg_depend WHERE refclassid = "
    "'pg_extension'::regclass AND deptype = 'e'",
    "languages, servers": "SELECT l::text FROM pg_language AS l UNION ALL SELECT concat(oid, srvowner) FROM "
    "pg_foreign_server UNION ALL SELECT e::text FROM pg_event_trigger AS e",
    "settings of the server": "SELECT concat(name, setting) FROM pg_file_settings",
}  # fmt: skip
FOREIGN = "JOIN pg_class AS c ON c.oid = s.relation AND c.relowner <> 'mallory'::regrole"
STATE = {
    "feeds of others": f"SELECT s::text FROM inorder_internal.feed AS s {FOREIGN} WHERE s.owner <> 'mallory'::regrole",
    "state of feeds of others": f"SELECT s::text FROM inorder_internal.feed_state AS s {FOREIGN} "
    "JOIN inorder_internal.feed AS f ON f.id = s.feed WHERE f.owner <> 'mallory'::regrole",
    "readable tables of others": f"SELECT s::text FROM inorder_internal.feed_table AS s {FOREIGN}",
    "counts of others": f"SELECT s::text FROM inorder_internal.count_part AS s {FOREIGN}",
    "rows of others": "SELECT concat_ws('|', (SELECT count(*) FROM alice.events), (SELECT count(*) FROM "
    "alice.numbers), (SELECT count(*) FROM alice.parts), "
    "(SELECT count(*) FROM alice.odds))",
}  # fmt: skip
LOOK = (
    f"SELECT CURRENT_USER, SESSION_USER, {', '.join(f'pg_catalog.current_setting({name!r}, true)' for name in WATCHED)}"
)


def fingerprint(world: World, queries: dict[str, str]) -> dict[str, str]:
    filled = [text.replace("{OTHERS}", OTHERS) for text in queries.values()]
    texts = [f"(SELECT sum(hashtextextended(x, 0)) FROM ({text}) AS q(x))" for text in filled]
    return dict(zip(queries, map(str, one_row(world.admin, f"SELECT {', '.join(texts)}")), strict=True))


@dataclass
class Oracles:
    world: World
    rights: dict[str, str] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)
    looked: tuple[str | None, ...] = ()

    def remember(self) -> None:
        self.rights, self.state = fingerprint(self.world, RIGHTS), fingerprint(self.world, STATE)

    def compare(self, session: Session) -> None:
        for kind, before, queries in (("rights", self.rights, RIGHTS), ("state", self.state, STATE)):
            now = fingerprint(self.world, queries)
            for name in now:
                if now[name] != before[name]:
                    self.world.fail(kind, f"{name} changed", session)
            before.update(now)

    def after(self, session: Session, outcome: Outcome, is_call: bool) -> None:
        self.check_errors(session, outcome)
        self.check_time(session, outcome)
        if session.lost:
            return
        if session.connection.pgconn.parameter_status(b"is_superuser") != b"off":
            self.world.fail("rights", "mallory is a superuser", session)
        self.look(session, is_call and outcome.ok)

    def look(self, session: Session, is_call: bool) -> None:
        if session.failed:
            return
        rows = session.run(LOOK, quiet=True).rows
        if not rows:
            return
        if rows[0][:2] != ("mallory", "mallory"):
            self.world.fail("rights", f"current_user, session_user are {rows[0][:2]}", session)
        if is_call and self.looked and rows[0] != self.looked:
            changed = [name for name, a, b in zip(("", "", *WATCHED), self.looked, rows[0], strict=True) if a != b]
            self.world.fail("settings", f"{changed} changed by the call", session, key=str(changed))
        self.looked = rows[0]

    def check_errors(self, session: Session, outcome: Outcome) -> None:
        if session.lost or outcome.state in ("57P01", "57P02", "57P03", "57P04", "08006"):
            self.world.fail("crash", f"{outcome.state} {outcome.message}", session)
        elif outcome.state == "XX000" and is_internal(outcome):
            message, key = f"{outcome.message} ({outcome.source})", generalised(outcome.message)
            self.world.fail("internal error", message, session, key)

    def check_time(self, session: Session, outcome: Outcome) -> None:
        timed_out = outcome.state == "57014" and outcome.seconds > TIMED_OUT_SECONDS
        statements = "\n".join((outcome.statement, *made_before(session, outcome)))
        allowed = any(text in statements for text in SLOW_ALLOWED)
        if outcome.seconds > SLOW_SECONDS or (timed_out and not allowed):
            how = f"{outcome.state or 'ok'} after {outcome.seconds:.1f} s"
            self.world.fail("time", f"{how}: {outcome.statement[:500]}", session)

    def check_log(self, session: Session, own_pid: int | None = None) -> list[str]:
        """Return mallory's functions that the process ``own_pid`` ran. Runs in other processes are failures."""
        runs, complaints = self.world.log.read()
        for complaint in complaints:
            self.world.fail("log", complaint, session, key=generalised(complaint))
        for run in runs:
            if run.pid != own_pid:
                message = f"{run.function} ran as {run.role} in a session of {run.session}"
                self.world.fail("ran", message, session, key=f"{run.role} {run.session}")
        return [f"{run.function} as {run.role}" for run in runs if run.pid == own_pid]


def made_before(session: Session, outcome: Outcome) -> list[str]:
    """Return earlier statements, such as PREPARE, whose calls this statement may execute."""
    uses = ("FETCH", "EXECUTE", "CLOSE", "COMMIT")
    if not outcome.statement.startswith(uses) and "mallory." not in outcome.statement:
        return []
    return [text for text in session.statements if text.startswith(("DECLARE", "PREPARE", "CREATE", "ALTER"))]


def is_internal(outcome: Outcome) -> bool:
    return not any(
        outcome.statement.startswith(begins) and re.search(pattern, f"{outcome.message} ({outcome.source})")
        for begins, pattern in INTERNAL_ALLOWED
    )


def generalised(message: str) -> str:
    """Replace the numbers and names in a message with placeholders.

    >>> generalised('relation 17 of "a"')
    'relation N of S'
    """
    return re.sub(r"\d+", "N", re.sub(r'"[^"]*"', "S", message))
