"""The tree is consistent: versions, documentation, symbols and sizes."""

import ast
import json
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import inorder
import pytest
from inorder.lab.plan.keys import BASE_KINDS, SHADES

from conftest import LONG, ROOT, SLOWEST, text
from messages import messages
from sources import C_FILES, PLAIN_FILES, SQL_FILES, definitions, sql_source
from world.refusals import CAUSES

PYTHON_FILES = sorted((ROOT / "inorder").rglob("*.py"))
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
TESTS = sorted((ROOT / "test").rglob("*.py"))
PUBLIC, INTERNAL, TEXT = "@extschema@", "inorder_internal", "inorder_text"
SQL_FUNCTION = re.compile(rf"^ *CREATE FUNCTION ({PUBLIC}|{INTERNAL}|{TEXT})\.(\w+)\(", re.M)
SQL_COMMENT = re.compile(rf"COMMENT ON FUNCTION ({PUBLIC}|{INTERNAL})\.(\w+)\([^;]*?\) IS\s'([^']*)")


def behind_other_objects(source: str) -> set[str]:
    used = r"(?:(?:FUNCTION|INPUT|OUTPUT|RECEIVE|SEND|SFUNC) =|FUNCTION \d+(?: \([^)]*\))?|SUPPORT) @extschema@\.(\w+)"
    comments = SQL_COMMENT.findall(source)
    triggers = {name for schema, name, says in comments if schema == PUBLIC and says.startswith("Internal function:")}
    return set(re.findall(used, source)) | triggers


def test_each_source_is_listed() -> None:
    the_map = text("CONTRIBUTING.md").partition("## Where things are")[2].partition("## The laboratory")[0]
    c, sql = (set(re.findall(r"\w+", half)) for half in the_map.partition("    sql/")[::2])
    assert {path.stem for path in C_FILES if path.suffix == ".c"} - c - {"inorder"} == set()
    assert {path.stem for path in SQL_FILES} - sql == set()


def test_the_version_is_the_same_everywhere() -> None:
    control = re.search(r"default_version = '(.+)'", text("inorder.control"))
    newest = re.search(r"^## (\S+)", text("CHANGELOG.md"), re.M)
    debian = re.search(r"^inorder \((.+)-\d+\)", text("debian/changelog"))
    meta = json.loads(text("META.json"))
    assert control and newest and debian
    versions = {
        control[1],
        newest[1],
        debian[1],
        inorder.__version__,
        meta["version"],
        meta["provides"]["inorder"]["version"],
    }
    assert versions == {inorder.__version__}
    named = set(re.findall(r"\binorder(?:-sql)?--(\d[\d.]*\d)\.sql", "".join(path.read_text() for path in DOCUMENTS)))
    assert named == {inorder.__version__}


def test_every_sql_function_is_documented_and_tested() -> None:
    docs = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    tests = "".join(path.read_text() for path in (ROOT / "test" / "sql").glob("*.sql"))
    source = sql_source()
    functions = SQL_FUNCTION.findall(source)
    names = {name for schema, name in functions if schema == PUBLIC}
    # Functions created in a loop are used only by operators.
    assert len(names) >= 50 and len(re.findall(r"(?<!')CREATE (?:OR REPLACE )?FUNCTION", source)) == len(
        SQL_FUNCTION.findall(source)
    ), "a function is created without its schema"
    for name in names - behind_other_objects(source):
        assert re.search(rf"`{name}\([^`]*\) → ", docs), f"{name} has no signature in docs"
        assert f"{name}(" in tests, f"{name} is not tested by pg_regress"


def test_every_internal_function_is_used() -> None:
    source = sql_source()
    # Update scripts may call functions that nothing else calls.
    updates = (ROOT / "test" / "upgrade").glob("*.sql")
    calling = source + "".join(path.read_text() for path in (*C_FILES, *updates))
    faces = re.findall(rf"CREATE FUNCTION {PUBLIC}\.(\w+)\([^;]*?AS 'MODULE_PATHNAME', '\w*as_owner'", source)
    assert len(faces) > 5
    assert not re.search(r"not for use by hand", calling, re.I)
    # C code calls functions by a name in a string.
    used = rf"(?<!CREATE FUNCTION ){INTERNAL}\.(\w+)\(|\"(\w+)\"|PUT = {INTERNAL}\.(\w+)\b"
    names = {name for match in re.findall(used, calling) for name in match} | {*faces}
    assert {name for schema, name in SQL_FUNCTION.findall(source) if schema == INTERNAL} - names == set()


def test_every_c_function_is_used() -> None:
    joined = "".join(path.read_text() for path in C_FILES)
    declared = "".join(path.read_text() for path in PYTHON_FILES) + sql_source()
    declared_words = set(re.findall(r"\w+", declared))
    for name in re.findall(r"PG_FUNCTION_INFO_V1\((\w+)\)", joined):
        assert name in declared_words, f"{name} is declared nowhere"
    defined = set(re.findall(r"^(?!PG_FUNCTION|pg_finfo_)(\w+)\(.*\)\n\{", joined, re.M))
    # Names that begin with SH_ are parameters of the server's simplehash.h.
    defined |= set(re.findall(r"^#define (?!SH_)(\w+)(?<!_H)\b", joined, re.M))
    # Declarations do not count as uses.
    used = Counter(re.findall(r"\w+", re.sub(r"^extern .*;$", "", joined, flags=re.M)))
    for name in defined:
        assert used[name] >= 2, f"{name} is never used"


def test_c_functions_fit_on_a_screen() -> None:
    texts = {path.name: path.read_text() for path in C_FILES}
    assert [name for name, content in texts.items() if not content.startswith(f"/*\n * {name}\n *\t  ")] == []
    bodies = {name: re.findall(r"^\{\n(.*?)^\}", content, re.M | re.S) for name, content in texts.items()}
    assert [name for name, functions in bodies.items() if any(body.count("\n") >= 60 for body in functions)] == []


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions_of(path: Path) -> list[ast.FunctionDef]:
    return [node for node in definitions(parsed(path)) if isinstance(node, ast.FunctionDef)]


def is_long(node: ast.FunctionDef) -> bool:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno >= 40


def test_python_files_and_functions_are_small() -> None:
    assert [path.name for path in PYTHON_FILES if path.read_text().count("\n") >= 400] == []
    assert [node.name for path in PYTHON_FILES for node in functions_of(path) if is_long(node)] == []


VAGUE = {"one", "found", "others", "part", "known", "rest", "kept", "seen", "told", "said"}


def vague_variables(path: Path) -> list[str]:
    """Return variables and parameters whose names do not say what they hold, with their lines.

    Class fields are left out.
    """
    tree = parsed(path)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {statement.target for node in classes for statement in node.body if isinstance(statement, ast.AnnAssign)}
    variables = [
        (node.lineno, node.arg if isinstance(node, ast.arg) else node.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        if node not in fields
    ]
    return [f"{path.relative_to(ROOT)}:{line}: {name}" for line, name in sorted(variables) if name in VAGUE]


def test_variables_are_named_after_what_they_hold() -> None:
    files = [path for name in ("inorder", "bench", "script", "test") for path in sorted((ROOT / name).rglob("*.py"))]
    assert [variable for path in files for variable in vague_variables(path)] == []


def test_only_the_command_line_replaces_standard_streams() -> None:
    """A library that replaces a standard stream does so for all threads and children of the process."""
    change = re.compile(r"\bdup2?\(|\bsys\.(?:std(?:in|out|err)) *=")
    assert [str(path.relative_to(ROOT)) for path in PYTHON_FILES if change.search(path.read_text())] == [
        "inorder/cli.py",
        "inorder/tail/command.py",
    ]


def test_tests_import_only_helpers_and_are_short() -> None:
    imports = re.compile(r"^\s*(?:from|import) test_", re.M)
    assert [path.name for path in TESTS if imports.search(path.read_text())] == []
    assert [node.name for path in TESTS for node in functions_of(path) if is_long(node)] == []


def test_the_layout_of_keys_depends_on_no_server_code() -> None:
    assert not re.search(
        r'#include "(?!postgres|port/|utils/)|\b(ereport|elog|palloc)\b\(', text("src/keys/uuid_layout.h")
    )


def test_only_compat_depends_on_server_versions() -> None:
    assert [path.name for path in C_FILES if "PG_VERSION_NUM >" in path.read_text().replace("<", ">")] == ["compat.h"]


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    reasons = text("CONTRIBUTING.md")
    extras = project["optional-dependencies"]
    for requirement in project["dependencies"] + extras["test"] + extras["arrow"] + extras["docs"]:
        if requirement.startswith("inorder["):
            continue
        name = re.split(r"[\[<>=]", requirement)[0]
        assert ">=" in requirement and ",<" in requirement, requirement
        assert re.search(rf"^\|.*\b{name}\b", reasons, re.M), f"{name} has no reason"


def test_the_map_names_each_module_that_an_operator_runs() -> None:
    """Files in lab/ are left out, because a diagram shows them."""
    named = set(re.findall(r"\w+", text("CONTRIBUTING.md").partition("## The laboratory")[0]))
    files = [*(ROOT / "sql").rglob("*.sql"), *(path for path in PYTHON_FILES if "lab" not in path.parts)]
    assert [str(path) for path in files if path.stem not in {*named, "__init__", "__main__"}] == []


def test_every_kind_of_key_is_documented_and_styled() -> None:
    for name in BASE_KINDS:
        assert f"`{name}`" in text("docs/lab.md")
        assert (name in SHADES) != (f"--kind-{name}: " in text("inorder/lab/report/page/style.css"))


def test_every_test_in_the_list_of_long_tests_exists() -> None:
    """If a file in SLOWEST does not exist, its name has no effect."""
    assert all((ROOT / "test" / "python" / f"{name}.py").exists() for name in SLOWEST)
    assert len(set(SLOWEST)) == len(SLOWEST)


@cache
def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.*?) *$", document.read_text(), re.M)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_links_between_documents_have_targets() -> None:
    for document in DOCUMENTS:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", document.read_text()):
            aim = (document.parent / target).resolve() if target else document
            assert aim.exists(), f"{document.name}: {target}"
            assert not anchor or aim.suffix != ".md" or anchor in anchors(aim), f"{document.name}: {target}#{anchor}"


# Scripts that handle --help themselves. All other scripts pass it on to a program.
SHELL_SCRIPTS = [
    path for path in sorted((ROOT / "script").glob("*")) if path.is_file() and "--help)" in path.read_text()
]


@pytest.mark.parametrize("path", SHELL_SCRIPTS, ids=lambda path: path.name)
def test_scripts_state_their_purpose(path: Path) -> None:
    printed = subprocess.run([path, "--help"], check=True, capture_output=True, text=True)
    comment = path.read_text().partition("\nset -eu")[0].splitlines()[1:]
    assert printed.stdout.splitlines() == [re.sub("^# ?", "", line) for line in comment] and comment


def committed_files() -> Iterator[Path]:
    git = ["git", "-c", f"safe.directory={ROOT}", "ls-files"]
    listed = subprocess.run(git, check=True, capture_output=True, text=True, cwd=ROOT)
    yield from (path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file())


def test_no_conflict_of_a_merge_is_left() -> None:
    marks = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    assert [path for path in committed_files() if marks.search(path.read_bytes())] == []


def test_no_registry_host_is_named() -> None:
    # debian/copyright must contain the URL of its format, which is therefore allowed.
    hosts = re.compile(r"://(?!www\.debian\.org/doc/)[a-z.-]*(pyp|pythonh|npmj|crates|maven|debian)[a-z.-]*")
    assert [path for path in committed_files() if hosts.search(path.read_text(errors="replace"))] == []


# A call without a schema. Two similar strings are not calls: a common table expression, as in tree(hash) AS (…), and a
# hint to call a function again.
UNQUALIFIED = re.compile(r"""(?<![.\w@"'-])(\w+)\((?!\w+\) AS \(|\) again)""")
QUOTED_TEXT = re.compile(r"'(?:[^']|'')*'")


def test_calls_of_own_functions_are_qualified() -> None:
    """The functions run with search_path set to pg_catalog, pg_temp.

    An unqualified call of another function would fail, but only when the call is executed.
    """
    sources = [re.sub(r"--\s.*", "", path.read_text()) for path in (*SQL_FILES, *PLAIN_FILES)]
    own_functions = {name for source in sources for _, name in SQL_FUNCTION.findall(source)}
    statements = [text for source in sources for text in QUOTED_TEXT.findall(source) if "SELECT " in text]
    texts = [QUOTED_TEXT.sub("''", source) for source in sources] + statements
    assert {name for text in texts for name in UNQUALIFIED.findall(text) if name in own_functions} == set()


def entries(page: str) -> list[str]:
    """Return the entries in the first column of the tables of a page."""
    return [
        entry for row in re.findall(r"^\| (`.*?`) \|", page, re.M) for entry in re.findall(r"`([^`]+)`", row)
    ]  # fmt: skip


OF_TOOL = re.search(r"^## Errors of the tool\n.*?(?=^## )", text("docs/troubleshooting.md"), re.M | re.S)
TOOL_SECTION = OF_TOOL[0] if OF_TOOL else ""
TOOL_ENTRIES = entries(TOOL_SECTION)
ENTRIES = entries(text("docs/troubleshooting.md").replace(TOOL_SECTION, ""))
LEAST_LETTERS = 10  # an entry with fewer letters would match any message
MESSAGES = messages()


def stands_for(entry: str, message: str) -> bool:
    return re.fullmatch(".+".join(map(re.escape, entry.split("…"))), message) is not None


def test_every_message_has_an_entry_in_troubleshooting() -> None:
    lacking = [message for message in MESSAGES if not any(stands_for(entry, message) for entry in ENTRIES)]
    assert {message: MESSAGES[message] for message in lacking} == {}, "docs/troubleshooting.md lacks these messages"


def test_every_entry_is_a_message() -> None:
    assert [entry for entry in ENTRIES if len(re.findall(r"[a-z]", entry)) < LEAST_LETTERS] == []
    assert [entry for entry in ENTRIES if not any(stands_for(entry, message) for message in MESSAGES)] == []


def test_every_entry_of_the_tool_is_a_message() -> None:
    """In the tool's strings and in the entries, ``…`` stands for names."""
    strings = [
        "".join(str(value.value) if isinstance(value, ast.Constant) else "…" for value in node.values)
        if isinstance(node, ast.JoinedStr) else str(node.value)
        for path in PYTHON_FILES if "lab" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    ]  # fmt: skip
    assert len(TOOL_ENTRIES) > 9
    patterns = {entry: ".+".join(map(re.escape, entry.strip("…").split("…"))) for entry in TOOL_ENTRIES}
    assert [entry for entry in patterns if not any(re.search(patterns[entry], string) for string in strings)] == []


def test_all_messages_are_found() -> None:
    assert len(MESSAGES) > 170 and len(ENTRIES) == len(set(ENTRIES))
    for message in (
        'cannot … "…": it is insert-only', "table … has lost the guard of column …", "column … of table … may be null",
        "feeds and exact counts cannot read …: it is not a table", "feed_guard() must be called as a trigger",
    ):  # fmt: skip
        assert message in MESSAGES


def test_the_stress_test_identifies_refusals_by_words_of_the_sql() -> None:
    assert [words for words in CAUSES if words not in sql_source()] == []


def test_names_chosen_by_others_are_escaped_on_a_terminal() -> None:
    """Output of the tool may contain names chosen by others, which print_text, one_line and lines escape."""
    raw = re.compile(r"^ *(?:click\.echo|print)\(f[\"'](?:(?!err=True|(?:one_line|lines)\().)*\)$", re.M)
    files = [path for path in PYTHON_FILES if "lab" not in path.parts]
    assert {path.name: calls for path in files if (calls := raw.findall(path.read_text()))} == {}


def test_a_script_with_its_own_tests_also_runs_the_long_ones() -> None:
    """script/test --long leaves out tests that a script runs. With a different edition, no test is left out."""
    scripts = [path for path in (ROOT / "script").iterdir() if path.is_file()]
    suites = [
        path.name for path in scripts if set(re.findall(r"test/python/(test_\w+)\.py", path.read_text())) & {*LONG}
    ]
    assert "clients" in suites
    assert [name for name in suites if not re.search("INORDER_TEST_(LONG|EDITION)", text(f"script/{name}"))] == []


def test_the_documentation_is_short() -> None:
    """The function manual, run results and generated pages do not count."""
    pages = [path.relative_to(ROOT) for path in DOCUMENTS if "docs" in path.parts]
    short = [page for page in pages if not {"results", "skill", "reference.md"} & {*page.parts}]
    assert sum(len(text(str(page)).split()) for page in short) <= 42_000 and len(short) > 30
    assert len(text("README.md").split()) <= 1_200
