"""The reference agrees with the catalog.

The man page, the page of commands and the shell completion repeat the help of the commands.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from inorder.connection.database import Connection

import command_pages
import reference
from tool import inorder

SHELLS = {"bash": "complete", "zsh": "compdef", "fish": "complete"}


OBJECTS = """
SELECT pg_describe_object(classid, objid, 0)
FROM pg_depend AS d CROSS JOIN LATERAL pg_identify_object(classid, objid, 0)
WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'inorder')
  AND deptype = 'e' AND """
COMMENTS = """
SELECT d.description FROM pg_description AS d
JOIN pg_depend AS m ON (m.classid, m.objid, m.deptype) = (d.classoid, d.objoid, 'e')
WHERE m.refclassid = 'pg_extension'::regclass AND m.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'inorder')
"""
ONE_SENTENCE = re.compile(r"(?:(?![.!?]\s)[^\n])+")


@pytest.mark.server
def test_every_object_is_created_in_a_schema_of_the_extension(fresh: Connection) -> None:
    other = "schema NOT IN ('public', 'inorder_internal', 'inorder_text')"
    assert fresh.execute((OBJECTS + other).encode()).fetchall() == []


@pytest.mark.server
def test_every_object_that_users_see_has_a_comment(fresh: Connection) -> None:
    """Internal functions and types need no comment."""
    unseen = "schema <> 'public' AND classid IN ('pg_proc'::regclass, 'pg_type'::regclass)"
    # Since PostgreSQL 17, array and row types are also members of the extension.
    implied = "EXISTS (SELECT FROM pg_depend AS i WHERE (i.classid, i.objid, i.deptype) = (d.classid, d.objid, 'i'))"
    without = "classid <> 'pg_opfamily'::regclass AND obj_description(objid, classid::regclass::name) IS NULL"
    assert fresh.execute(f"{OBJECTS} ({unseen}) IS NOT TRUE AND NOT {implied} AND {without}".encode()).fetchall() == []


@pytest.mark.server
def test_every_comment_is_one_sentence(fresh: Connection) -> None:
    """psql shows a comment in a line or two. docs/reference.md has the full description."""
    comments = [str(comment) for (comment,) in fresh.execute(COMMENTS).fetchall()]
    assert len(comments) > 100
    assert [each for each in comments if len(each) > 200 or not ONE_SENTENCE.fullmatch(each)] == []


@pytest.mark.server
def test_the_reference_agrees_with_the_catalog(fresh: Connection) -> None:
    page = reference.FILE.read_text()
    assert reference.with_signatures(fresh, page) == page, "run script/reference"
    assert list(reference.faults(fresh, page)) == []


CHANGES = {
    "### `xact_id`\n": "### `xact_ids`\n",
    "Rename a feed of": "Name a feed of",
    "| `tries` | integer |": "| `tries` | bigint |",
    "| `tries` | integer | number": "| `tries` | integer | when",
    "moment not later than the key": "moment later than the key",
    "### `feed_revoke`": "## `feed_revoke`",
}


@pytest.mark.server
@pytest.mark.parametrize("text", CHANGES)
def test_a_fault_of_the_reference_is_found(fresh: Connection, text: str) -> None:
    page = reference.FILE.read_text()
    assert text in page
    assert list(reference.faults(fresh, page.replace(text, CHANGES[text]))) != []


@pytest.mark.server
def test_a_stale_signature_is_replaced(fresh: Connection) -> None:
    page = reference.FILE.read_text()
    stale = page.replace("leading_ones integer DEFAULT 32", "leading_ones bigint")
    assert stale != page and list(reference.faults(fresh, stale)) != []
    assert reference.with_signatures(fresh, stale) == page


def test_the_reference_has_ranges_and_errors() -> None:
    """The page lists ranges for functions that generate or bound keys, and errors for functions on a table or feed."""
    for heading, body in reference.sections(reference.FILE.read_text()):
        if re.search(r"(nextval|floor|ceiling|xact_id|_time)`$", heading):
            assert re.search("Ranges?:|281474976710655|RFC 9562", body), heading
        elif re.search(r"\((relation regclass|name text)(?!\) → TABLE)", body):
            assert re.search("^\\* .*[Ee]rrors:", body, re.M), heading


def test_the_man_page_is_up_to_date() -> None:
    assert command_pages.manual() == command_pages.MAN.read_text(), "run script/reference"


def test_the_page_has_every_command_and_option() -> None:
    sections = command_pages.page().split("\n## ")
    headings = {section.partition("\n")[0]: section for section in sections}
    for command, context in command_pages.every_command():
        section = headings[context.command_path]
        for option in (
            parameter for parameter in command.params if isinstance(parameter, click.Option) and not parameter.hidden
        ):
            for name in {*option.opts, *option.secondary_opts} - {"-h", "--help"}:
                assert re.search(rf"^\| `[^`]*(?<![\w-]){name}(?![\w-])", section, re.MULTILINE), name


def test_the_help_of_an_option_says_which_value_it_takes() -> None:
    """No option has one of click's default metavariables, and no argument is listed among the options."""
    helps = {context.command_path: command.get_help(context) for command, context in command_pages.every_command()}
    assert [
        path for path, text in helps.items() if re.search(r"INTEGER|RANGE|TEXT\b|^  \[?[A-Z]+\]?$", text, re.M)
    ] == []


def test_man_shows_the_page() -> None:
    man = shutil.which("man")
    if man is None or shutil.which("groff") is None:
        pytest.skip("this system has no man with groff")
    done = subprocess.run(
        [man, "--warnings", "-P", "cat", "-l", command_pages.MAN], capture_output=True, text=True, check=True,
        env=os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert done.stderr == "" and "NAME\n       inorder - read, count" in done.stdout
    assert "inorder tail [OPTIONS] [TABLE]" in done.stdout and "--accept-output" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("shell", SHELLS)
def test_the_completion_script_of_each_shell_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("_INORDER_COMPLETE", f"{shell}_source")
    done = inorder(folder=tmp_path)
    assert (
        done.returncode == 0 and SHELLS[shell] in done.stdout and f"_INORDER_COMPLETE={shell}_complete" in done.stdout
    )
    script = tmp_path / f"inorder.{shell}"
    script.write_text(done.stdout)
    if program := shutil.which(shell):
        subprocess.run([program, "-n", script], check=True)
    if shell == "bash":
        typed = "COMP_WORDS=(inorder t); COMP_CWORD=1; _inorder_completion inorder; echo ${COMPREPLY[@]}"
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        del environment["_INORDER_COMPLETE"]
        done_there = subprocess.check_output(["bash", "-c", f"source {script}; {typed}"], text=True, env=environment)
        assert done_there == "tail\n"
