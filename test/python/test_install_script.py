"""Rules for the install script: it uses no object that another role created in a schema, and is easy to read.

Each rule is also tested on a script that breaks it.
"""

from collections.abc import Callable
from itertools import accumulate

import pytest

import script_rules as rules
from script_rules import RULES, Finding, Found
from sources import ROOT, SQL_FILES, sql_source

# Allowed findings: the rule or pgspot code, the object, and the reason.
ONCE = "A DO block runs once, during the script, and the schema cannot be renamed meanwhile."
OF_A_TABLE = "A trigger belongs to the owner of its table, who runs the statement."
COMPARED = "Only replaces an existing object that was found to belong to inorder and to the table's owner."
ALLOWED: dict[tuple[str, str], str] = {
    ("no_schema_in_text", "DO function _extschema_.uuid_v1_skipsupport(internal)"): ONCE,
    ("no_schema_in_text", "DO function _extschema_.uuid_smaller(uuid, uuid)"): ONCE,
    ("no_schema_in_text", "DO"): ONCE,
    ("made_anew", "function inorder_internal.mark_statements(regclass, regclass)"): OF_A_TABLE,
    ("made_anew", "function inorder_internal.trigger_statements(regclass, regclass)"): OF_A_TABLE,
    ("made_anew", "function inorder_internal.group_statements(inorder_internal.group_set)"): COMPARED,
    ("made_anew", "function inorder_internal.function_statement(text, text)"): COMPARED,
}

HEADER = "\\echo Use CREATE EXTENSION\nSET LOCAL search_path TO pg_catalog, pg_temp;\n"
CLEAN = (
    HEADER
    + """CREATE SCHEMA inorder_internal;
COMMENT ON SCHEMA inorder_internal IS 'kept state; it''s ours';
CREATE TYPE @extschema@.pair AS (low bigint, high bigint);
COMMENT ON TYPE @extschema@.pair IS 'two';
CREATE TABLE inorder_internal.kept (relation regclass PRIMARY KEY, p @extschema@.pair CHECK ((p).low >= 0));
COMMENT ON TABLE inorder_internal.kept IS 'state';
SELECT pg_catalog.pg_extension_config_dump('inorder_internal.kept', 'WHERE true');
CREATE FUNCTION @extschema@.low(relation regclass DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STABLE;
COMMENT ON FUNCTION @extschema@.low(regclass) IS 'low';
CREATE FUNCTION @extschema@.both(a bigint, OUT b bigint) LANGUAGE sql
RETURN a + @extschema@.low(NULL::regclass) + (SELECT count(*) FROM inorder_internal.kept WHERE relation = a::oid);
COMMENT ON FUNCTION @extschema@.both(bigint) IS 'sum';
CREATE FUNCTION inorder_internal.get(of regclass) RETURNS @extschema@.pair
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    k inorder_internal.kept;
    bound bigint := 1;
    other inorder_internal.kept%ROWTYPE;
    same inorder_internal.kept.relation%TYPE;
BEGIN
    WITH mine AS (SELECT * FROM inorder_internal.kept AS i WHERE i.relation = of)
    SELECT * INTO k FROM mine FOR SHARE OF mine;
    k.relation := of;
    IF k.p IS NULL AND NOT EXISTS (SELECT FROM pg_class WHERE oid = of) THEN
        RAISE 'no %', of USING HINT = format('%s', E'a\\n');
    ELSIF (k.p).low < bound THEN
        RETURN ROW(bound, bound);
    END IF;
    RETURN k.p;
END $$;
COMMENT ON FUNCTION inorder_internal.get(regclass) IS 'one';
CREATE OPERATOR @extschema@.<~ (
    FUNCTION = @extschema@.before, LEFTARG = uuid, RIGHTARG = @extschema@.pair,
    COMMUTATOR = OPERATOR(@extschema@.>~), RESTRICT = scalarltsel
);
COMMENT ON OPERATOR @extschema@.<~ (uuid, @extschema@.pair) IS 'before';
CREATE CAST (uuid AS @extschema@.pair) WITH FUNCTION @extschema@.pair(uuid);
COMMENT ON CAST (uuid AS @extschema@.pair) IS 'cast';
CREATE OPERATOR CLASS @extschema@.pair_ops FOR TYPE @extschema@.pair USING btree AS
    OPERATOR 1 @extschema@.<~, FUNCTION 1 btequalimage(oid);
COMMENT ON OPERATOR CLASS @extschema@.pair_ops USING btree IS 'order';
CREATE VIEW @extschema@.kept WITH (security_invoker = true) AS
SELECT k.p OPERATOR(@extschema@.<~) 'x'::uuid AS q FROM inorder_internal.kept AS k;
COMMENT ON VIEW @extschema@.kept IS 'view';
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 180000 THEN
        ALTER TABLE inorder_internal.kept ALTER relation DROP NOT NULL;
    END IF;
END $$;
"""
)
PINNED = "SET search_path = pg_catalog, pg_temp"
MINE = "CREATE TABLE inorder_internal.mine (a int); CREATE FUNCTION @extschema@.f(a bigint DEFAULT 0) RETURNS int"
MINE += " AS 'MODULE_PATHNAME' LANGUAGE C; CREATE TYPE @extschema@.kind AS (a int);"
MINE += " CREATE OPERATOR @extschema@.<~ (FUNCTION = @extschema@.f, LEFTARG = uuid, RIGHTARG = uuid);"


def plpgsql(body: str, options: str = PINNED, name: str = "inorder_internal.g()", returns: str = "int") -> str:
    return f"{MINE} CREATE FUNCTION {name} RETURNS {returns} LANGUAGE plpgsql {options} AS $$ BEGIN\n{body}; END $$"


def sql(expression: str) -> str:
    return f"{MINE} CREATE FUNCTION @extschema@.g() RETURNS int LANGUAGE sql RETURN {expression}"


def do(statement: str) -> str:
    return f"{MINE} DO $$ BEGIN {statement}; END $$"


LONG_ATOMIC = "CREATE FUNCTION f() RETURNS int LANGUAGE sql\nBEGIN ATOMIC\n" + "--\n" * 39 + "END"

# A rule, a script that breaks it, and the finding.
PLANTED: list[tuple[Callable[[str], Found], str, str]] = [
    (rules.ascii_only, "-- \N{HORIZONTAL ELLIPSIS}", "not ASCII: \N{HORIZONTAL ELLIPSIS}"),
    (rules.short_lines, "-- " + 118 * "x", "121 characters"),
    (rules.short_bodies, plpgsql("NULL;\n" * 39 + "NULL"), "41 lines"),
    (rules.short_bodies, LONG_ATOMIC, "41 lines"),
    (rules.short_bodies, do("NULL;\n" * 40 + "NULL"), "41 lines"),
    (rules.pinned_script, "SELECT 1", "does not begin"),
    (rules.pinned_script, "SET search_path TO pg_catalog, pg_temp", "does not begin"),
    (rules.pinned_script, "SET LOCAL search_path TO pg_catalog, public", "does not begin"),
    (rules.pinned_functions, plpgsql("NULL", ""), "no SET"),
    (rules.pinned_functions, plpgsql("NULL", "SET search_path = pg_catalog"), "no SET"),
    (rules.pinned_functions, plpgsql("NULL", "SET search_path = pg_catalog, inorder_internal, pg_temp"), "no SET"),
    (rules.pinned_functions, "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "no SET"),
    (rules.no_schema_in_text, plpgsql("PERFORM @extschema@.f(1)"), "function inorder_internal.g()"),
    (rules.no_schema_in_text, plpgsql("EXECUTE 'SELECT @extschema@.f(1)'"), "in a text body"),
    (rules.no_schema_in_text, do("CREATE TABLE @extschema@.t ()"), "DO table _extschema_.t"),
    (rules.made_anew, "CREATE OR\nREPLACE VIEW v AS SELECT 1", "CREATE OR REPLACE"),
    (rules.made_anew, "CREATE TABLE IF NOT EXISTS t ()", "CREATE TABLE IF NOT EXISTS"),
    (rules.made_anew, do("CREATE UNIQUE INDEX IF NOT EXISTS i ON t (a)"), "INDEX IF NOT EXISTS"),
    (rules.made_anew, "ALTER TABLE t ADD COLUMN IF NOT EXISTS a int", "ADD COLUMN IF NOT EXISTS"),
    (rules.made_anew, plpgsql("EXECUTE format('CREATE %s VIEW v AS SELECT 1', 'OR REPLACE')"), "OR REPLACE as a part"),
    (rules.no_backslashes, r"COMMENT ON TABLE t IS 'a\b'", r"'a\b'"),
    (rules.no_backslashes, plpgsql(r"RETURN a ~ 'it''s \d'"), r"'it''s \d'"),
    (rules.no_backslashes, plpgsql(r"EXECUTE E'a\n' || 'SELECT ''\d'' '"), r"'SELECT ''\d'' '"),
    (rules.no_backslashes, r"SELECT U&'\0441'", r"U&'\0441'"),
    (rules.invokers_rights, plpgsql("NULL", f"{PINNED} SECURITY DEFINER"), "SECURITY DEFINER"),
    (rules.invokers_rights, "ALTER FUNCTION f() SECURITY DEFINER", "SECURITY DEFINER"),
    (rules.invokers_rights, do("ALTER FUNCTION f() SECURITY DEFINER"), "SECURITY DEFINER"),
    (rules.invokers_rights, "CREATE VIEW v AS SELECT FROM t", "without security_invoker"),
    (rules.invokers_rights, "CREATE VIEW v WITH (security_invoker = off) AS TABLE t", "without security_invoker"),
    (rules.invokers_rights, "CREATE VIEW v AS WITH k AS (SELECT FROM t) TABLE k", "without security_invoker"),
    (rules.invokers_rights, "CREATE VIEW v AS WITH t AS (SELECT 1) SELECT FROM t, s.t", "without security_invoker"),
    (rules.plain_arguments, plpgsql("NULL", name='@extschema@.f("table" int)'), "argument table"),
    (rules.plain_arguments, plpgsql("NULL", name='@extschema@.f(OUT "position" int)'), "argument position"),
    (rules.plain_arguments, plpgsql("NULL", name='@extschema@.f("left" int)'), "argument left"),
    (rules.plain_arguments, plpgsql("NULL", name='@extschema@.f("A" int)'), "argument A"),
    (rules.exact_calls, sql("@extschema@.f()"), "without all of its arguments"),
    (rules.exact_calls, sql("@extschema@.f(1)"), "literal that is not cast"),
    (rules.exact_calls, sql("@extschema@.f(a => NULL)"), "literal that is not cast"),
    (rules.exact_calls, sql("a OPERATOR(@extschema@.<~) 'x'"), "literal that is not cast"),
]

# A pgspot code, a script for which pgspot reports it, and the object.
SPOTTED = [
    ("PS001", sql("1 + 1"), "'+'"),
    ("PS016", sql("lower('A')"), "lower"),
    ("PS017", "SELECT 1 FROM t", "t"),
    ("PS002", "CREATE OR REPLACE FUNCTION f() RETURNS int AS 'f' LANGUAGE C", "f()"),
    ("PS003", plpgsql("NULL", "SECURITY DEFINER"), "g()"),
    ("PS005", HEADER + plpgsql("NULL", "SET search_path = public"), "g()"),
    ("PS001", HEADER + plpgsql("RETURN 1 + 1", ""), "'+'"),
    ("PS016", do("PERFORM lower('A')"), "lower"),
    ("PS016", plpgsql("IF true THEN NULL; ELSIF lower('A') THEN NULL; END IF", ""), "lower"),
    ("PS016", plpgsql("RETURN QUERY SELECT lower('A')", "", returns="SETOF int"), "lower"),
    ("PS018", "SET search_path = 'pg_catalog, pg_temp'", ""),
    ("unknown", HEADER + "CREATE FUNCTION f() RETURNS int LANGUAGE plperl AS ''", "plperl"),
    ("unknown", HEADER + plpgsql("nothing of the kind"), "syntax error"),
]


def place(line: int) -> str:
    lengths = [path.read_text().count("\n") for path in SQL_FILES]
    ends = list(accumulate(lengths))
    index = next((index for index, end in enumerate(ends) if line <= end), len(ends) - 1)
    return f"{SQL_FILES[index].relative_to(ROOT)}:{line - ends[index] + lengths[index]}"


def unexpected(findings: list[Finding]) -> str:
    return "\n".join(
        f"{place(each.line)}: {each.subject}: {each.problem} ({each.rule})"
        for each in findings
        if (each.rule, each.subject) not in ALLOWED
    )


def test_every_source_file_is_part_of_the_install_script() -> None:
    """Files of sql/ outside the install script belong to the SQL edition, a release or an update."""
    folders = [ROOT / "sql" / name for name in ("plain", "released", "update")]
    assert {path for path in (ROOT / "sql").rglob("*.sql") if not set(path.parents) & set(folders)} == set(SQL_FILES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_install_script_follows_the_rule(rule: Callable[[str], Found]) -> None:
    faults = unexpected(rules.broken(sql_source(), rule))
    assert not faults, f"{rule.__doc__}\n{faults}"


def test_pgspot_finds_nothing() -> None:
    faults = unexpected(rules.spotted(sql_source()))
    assert not faults, faults


def test_every_exception_is_still_needed() -> None:
    script = sql_source()
    findings = [each for rule in RULES for each in rules.broken(script, rule)] + rules.spotted(script)
    assert set(ALLOWED) <= {(each.rule, each.subject) for each in findings}
    assert all(ALLOWED.values())


def test_a_clean_script_breaks_no_rule() -> None:
    assert [each for rule in RULES for each in rules.broken(CLEAN, rule)] + rules.spotted(CLEAN) == []


def test_planted_faults_are_found() -> None:
    results = [([f"{each.subject}: {each.problem}" for each in rules.broken(planted, rule)], rule, message)
             for rule, planted, message in PLANTED]  # fmt: skip
    assert [result for result in results if not any(result[2] in each for each in result[0])] == []


def test_a_fault_is_planted_for_every_rule() -> None:
    assert {rule for rule, _, _ in PLANTED} == set(RULES)


def test_pgspot_finds_planted_faults() -> None:
    for code, planted, subject in SPOTTED:
        warnings = [(each.rule, each.subject) for each in rules.spotted(planted)]
        assert any(each[0] == code and subject in each[1] for each in warnings), (code, planted, warnings)


def test_findings_name_the_right_line() -> None:
    planted = "\n-- so\nSELECT 1;\n/* x */\n" + plpgsql("NULL;\n\nPERFORM @extschema@.f(1)")
    assert [each.line for each in rules.broken(planted, rules.exact_calls)] == [8]
