"""The programs of docs/clients/orm.md and its folder are run on a server with inorder."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder.connection.database import Connection
from inorder.lab.server.cluster import Cluster

from conftest import copy_of, text
from examples import programs
from world.sql import value

pytestmark = pytest.mark.server

FILES = {
    "sqlalchemy: worker.py": "worker_sqlalchemy.py",
    "django: shop/management/commands/feed_worker.py": "worker_django.py",
    "django: shop/migrations/0002_feed.py": "orm/django_0002_feed.py",
    "django: shop/migrations/0004_prepare.py": "orm/django_0004_prepare.py",
    "sqlalchemy: models.py": "orm/sqlalchemy_models.py",
    "sqlalchemy: read.py": "orm/sqlalchemy_read.py",
    "django: shop/models.py": "orm/django_models.py",
    "django: shop/read.py": "orm/django_read.py",
    "alembic: prepare.py": "orm/alembic_prepare.py",
    "alembic: create.py": "orm/alembic_create.py",
    "alembic: orders.py": "orm/alembic_orders.py",
}
PROGRAMS = programs("docs/clients/orm.md") | {name: text(f"docs/clients/{file}") for name, file in FILES.items()}


@pytest.fixture
def shop(cluster: Cluster, template: str) -> Iterator[Connection]:
    with copy_of(template, cluster, "orm") as connection:
        yield connection


def write(folder: Path, kind: str) -> None:
    for name, program in PROGRAMS.items():
        if name.startswith(f"{kind}: "):
            path = folder / name.removeprefix(f"{kind}: ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(program)


def run(cluster: Cluster, folder: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | cluster.environment() | {"PGDATABASE": "orm", "PYTHONPATH": str(folder)} | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


SQLALCHEMY = """
import sqlalchemy as sa
from models import Base, Customer, Event
from read import READ, new_events
from sqlalchemy.orm import Session

engine = sa.create_engine("postgresql+psycopg://")
Base.metadata.create_all(engine)
statements = []
sa.event.listen(engine, "before_cursor_execute", lambda c, cursor, text, *rest: statements.append(text))
with Session(engine) as session:
    session.execute(sa.text("SELECT feed_create('mailer', 'events')"))
    session.add(customer := Customer(name="c"))
    events = [Event(body=str(number)) for number in range(3)]
    session.add_all(events)
    session.flush()
    assert customer.id.version == 7 and len({event.id for event in events}) == 3
    assert len([text for text in statements if "INSERT INTO events" in text]) == 3
    assert [event.body for event in session.scalars(sa.select(Event).order_by(Event.id))] == ["0", "1", "2"]
    session.commit()
    statements.clear()
    session.execute(sa.insert(Event), [{"body": "3"}, {"body": "4"}])
    assert len([text for text in statements if "INSERT INTO events" in text]) == 1
    session.commit()
    assert [event.body for event in new_events(session, 2)] == ["0", "1"]
    session.rollback()
    assert [event.body for event in new_events(session, 2)] == ["0", "1"]
    session.commit()
    assert [event.body for event in new_events(session)] == ["2", "3", "4"]
    session.commit()
    assert new_events(session) == []
    session.commit()
    for options in ({"yield_per": 10}, {"stream_results": True}):
        try:
            list(session.scalars(READ, {"max_rows": 5}, execution_options=options))
        except sa.exc.NotSupportedError as error:
            assert error.orig.sqlstate == "0A000"
            session.rollback()
        else:
            raise AssertionError(options)
print("done")
"""


def test_the_sqlalchemy_program_works(shop: Connection, cluster: Cluster, tmp_path: Path) -> None:
    write(tmp_path, "sqlalchemy")
    assert run(cluster, tmp_path, "-c", SQLALCHEMY) == "done\n"


WORKER = """
import sqlalchemy as sa
import worker
from models import Base, Event
from sqlalchemy.orm import Session

engine = sa.create_engine("postgresql+psycopg://")
Base.metadata.create_all(engine)
seen = []


def process(session, row):
    if row.body == "bad":
        raise ValueError("poison")
    seen.append(row.body)


worker.process = process
with Session(engine) as session:
    session.execute(sa.text("SELECT feed_create('mailer', 'events')"))
    session.add_all(Event(body=body) for body in ("good", "bad", "fine"))
    session.commit()
    ask = lambda: worker.work(session, "mailer", "events", "one")
    assert ask() == "will be tried again: poison" and seen == ["good"]
    while (became := ask()) is None:
        pass
    assert became == "finished" and seen == ["good", "good", "fine"]
    assert ask() is None
    ((row, error),) = session.execute(sa.text("SELECT row, error FROM dead_letters")).all()
    assert "'body': 'bad'" in row and error == "poison"
    assert session.execute(sa.text("SELECT FROM feed_batches")).all() == []
print("done")
"""


def test_a_sqlalchemy_worker_processes_batches(shop: Connection, cluster: Cluster, tmp_path: Path) -> None:
    write(tmp_path, "sqlalchemy")
    assert run(cluster, tmp_path, "-c", WORKER) == "done\n"


POISON = """
    if row.body == "bad":
        raise ValueError("poison")
    if row.body == "late":  # what a deferred constraint refuses
        session.execute(sa.text("INSERT INTO children VALUES (1)"))
"""
TABLES = """
import sqlalchemy as sa
from models import Base
engine = sa.create_engine("postgresql+psycopg://")
Base.metadata.create_all(engine)
with engine.begin() as connection:
    connection.exec_driver_sql("SELECT feed_create('mailer', 'events')")
"""
ENDED = re.compile("^finished|^dead|^$")  # the end of a line or of the program
DEFERRED = "CREATE TABLE children (id int REFERENCES parents DEFERRABLE INITIALLY DEFERRED)"


def test_the_sqlalchemy_worker_keeps_good_rows_beside_poison_rows(
    shop: Connection, cluster: Cluster, tmp_path: Path
) -> None:
    """The good rows of a batch with a poison row are processed, and the batch does not become dead.

    The sink is empty at first.
    """
    write(tmp_path, "sqlalchemy")
    run(cluster, tmp_path, "-c", TABLES)
    worker = tmp_path / "worker.py"
    worker.write_text(worker.read_text().replace("  # replace this function\n", f"  # replace this function\n{POISON}"))
    for statement in ("CREATE TABLE parents (id int PRIMARY KEY)", DEFERRED):
        shop.execute(statement.encode())
    shop.execute("INSERT INTO events (body) SELECT unnest('{good,bad,late,fine}'::text[])")
    environment = os.environ | cluster.environment() | {"PGDATABASE": "orm", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "worker.py", "mailer", "events", "worker 1"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout and running.stderr
        messages: list[str] = []
        while not messages or not ENDED.search(messages[-1]):
            messages.append(running.stderr.readline())
        running.terminate()
        printed = running.stdout.read()
    assert [line.split()[1] for line in printed.splitlines()][-3:] == ["good", "late", "fine"], messages
    assert value(shop, "SELECT count(*) FROM feed_batches") == 0
    rows = shop.execute("SELECT row, error FROM dead_letters").fetchall()
    assert ["'bad'" in rows[0][0], "'late'" in rows[1][0], "foreign key" in rows[1][1]] == [True] * 3


ALEMBIC = """
import runpy
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
import orders
from models import Base


def migrate(name, step="upgrade"):
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"transactional_ddl": True})
        with context.begin_transaction(), Operations.context(context):
            runpy.run_path(name)[step]()


engine = sa.create_engine("postgresql+psycopg://", poolclass=sa.NullPool)
with engine.begin() as connection:
    connection.exec_driver_sql("CREATE TABLE orders (id serial PRIMARY KEY, body varchar NOT NULL)")
    connection.exec_driver_sql("INSERT INTO orders (body) VALUES ('old')")
    before = connection.exec_driver_sql("SELECT pg_relation_filenode('orders')").scalar_one()
migrate("create.py")
migrate("prepare.py")
migrate("prepare.py")
with engine.connect() as connection:
    options = {"compare_server_default": True, "include_name": orders.include_name}
    context = MigrationContext.configure(connection, opts=options)
    assert (found := compare_metadata(context, Base.metadata)) == [], found
    assert connection.exec_driver_sql("SELECT pg_relation_filenode('orders')").scalar_one() == before
    connection.exec_driver_sql("SELECT feed_create('orders', 'orders')")
    connection.exec_driver_sql("INSERT INTO orders (body) VALUES ('new')")
    connection.commit()
    rows = connection.exec_driver_sql("SELECT body FROM feed_read('orders', null::orders)").all()
    assert rows == [("old",), ("new",)]
migrate("create.py", "downgrade")
print("done")
"""


def test_the_alembic_migration_can_be_applied_and_undone(shop: Connection, cluster: Cluster, tmp_path: Path) -> None:
    write(tmp_path, "sqlalchemy")
    write(tmp_path, "alembic")
    assert run(cluster, tmp_path, "-c", ALEMBIC) == "done\n"
    assert value(shop, "SELECT to_regclass('events')") is None


DJANGO_SETTINGS = """
import os
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "orm",
                         "USER": os.environ["PGUSER"], "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}}
INSTALLED_APPS = ["shop"]
USE_TZ = True
SECRET_KEY = "for the tests"
"""

ORDER = """

class Order(models.Model):
    body = models.TextField()
"""
(XACT,) = re.findall(r"`(xact = models.*?)`", text("docs/clients/orm.md"))

DJANGO = """
import django
django.setup()
from django.db import connection, transaction
from django.db.models.expressions import DatabaseDefault
from django.test.utils import CaptureQueriesContext
from shop.models import Customer, Event, Order
from shop.read import process

assert Customer.objects.create(name="c").id.version == 7
assert Customer.objects.get().id.version == 7
with CaptureQueriesContext(connection) as queries:
    events = Event.objects.bulk_create([Event(body=str(number)) for number in range(3)])
assert len([query for query in queries if "INSERT" in query["sql"]]) == 1
assert {type(event.pk) for event in events} == {DatabaseDefault}
(event := Event(body="3")).save()
assert Event.objects.get(pk=event.pk).body == "3"
seen = []


def failing(event):
    raise ValueError


try:
    process(failing)
except ValueError:
    pass
assert process(lambda event: seen.append(event.body), 3) == 3
assert process(lambda event: seen.append(event.body)) == 1
assert process(lambda event: seen.append(event.body)) == 0
assert seen == ["0", "1", "2", "3"]
with transaction.atomic():
    cursor = connection.cursor()
    cursor.execute("SELECT feed_create('orders', 'shop_order')")
    Order.objects.create(body="new")
with transaction.atomic():
    cursor.execute("SELECT body FROM feed_read('orders', null::shop_order)")
    assert cursor.fetchall() == [("old",), ("new",)]
print("done")
"""

DJANGO_WORKER = """
import io
import time
import django
django.setup()
from django.core.management import call_command
from django.db import connection, transaction
from shop.management.commands import feed_worker
from shop.models import Event

done = []


def process(row):
    if row.body == "bad":
        raise ValueError("poison")
    done.append(row.body)


feed_worker.process = process
with transaction.atomic():
    for body in ("good", "bad", "fine"):
        Event(body=body).save()
log = io.StringIO()
while "finished" not in log.getvalue():
    call_command("feed_worker", "mailer", "shop.Event", "one", "--once", stderr=log)
    time.sleep(0.1)
assert "try 1 of 5: will be tried again: poison" in log.getvalue() and "try 2 of 5: finished" in log.getvalue()
assert done == ["good", "good", "fine"]
with connection.cursor() as cursor:
    cursor.execute("SELECT id, error FROM dead_letters")
    assert cursor.fetchall() == [(str(Event.objects.get(body="bad").pk), "poison")]
print("done")
"""


def test_the_django_migrations_and_programs_work(shop: Connection, cluster: Cluster, tmp_path: Path) -> None:
    write(tmp_path, "django")
    (tmp_path / "settings.py").write_text(DJANGO_SETTINGS)
    for folder in (tmp_path / "shop", tmp_path / "shop" / "migrations"):
        (folder / "__init__.py").touch()
    feed, prepare = (tmp_path / "shop" / "migrations" / f"{name}.py" for name in ("0002_feed", "0004_prepare"))
    texts = {path: path.read_text() for path in (feed, prepare)}
    for path in texts:
        path.unlink()

    def manage(*arguments: str) -> str:
        return run(cluster, tmp_path, "-m", "django", *arguments, "--settings=settings")

    manage("makemigrations", "shop")
    feed.write_text(texts[feed])
    models = tmp_path / "shop" / "models.py"
    models.write_text(models.read_text() + ORDER)
    manage("makemigrations", "shop", "--name", "order")
    manage("migrate")
    shop.execute("INSERT INTO shop_order (body) VALUES ('old')")
    models.write_text(f"{models.read_text()}    {XACT}\n")
    prepare.write_text(texts[prepare])
    manage("migrate")
    manage("makemigrations", "--check")
    for program in (DJANGO, DJANGO_WORKER):
        assert run(cluster, tmp_path, "-c", program, DJANGO_SETTINGS_MODULE="settings") == "done\n"
