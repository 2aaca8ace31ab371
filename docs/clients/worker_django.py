"""A worker of a feed, as a command of Django: python manage.py feed_worker FEED MODEL WORKER. See orm.md."""

from django.apps import apps
from django.core.management.base import BaseCommand
from django.db import connection, transaction

TAKE = "SELECT number, token, tries FROM feed_take_batch(%s, %s, 100, max_tries => 5)"
FAIL = "SELECT feed_fail_batch(%s, %s, %s, %s, retry_after => '1 second')"


def process(row):  # replace this function
    print(row.pk, row.body, flush=True)


def fetch_row(statement, *arguments):
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchone()


class Command(BaseCommand):
    help = "Process the rows of a model in batches of a feed."

    def add_arguments(self, parser):
        for name in ("feed", "model", "worker"):
            parser.add_argument(name)
        parser.add_argument("--once", action="store_true", help="End when there is no batch.")

    def handle(self, feed, model, worker, once, **options):
        while True:
            number, token, tries = fetch_row(TAKE, feed, worker)  # in autocommit mode, Django's default
            if number is None and once:
                return
            if number is None:
                fetch_row("SELECT feed_wait(%s, timeout => '1 second')", feed)
            else:
                result = self.work(feed, apps.get_model(model), number, token, tries)
                self.stderr.write(f"batch {number}, try {tries} of 5: {result}")

    def work(self, feed, model, number, token, tries):
        rows = f"SELECT * FROM feed_batch_rows(%s, %s, null::{model._meta.db_table})"
        try:
            with transaction.atomic():
                for row in list(model.objects.raw(rows, [feed, number])):
                    self.process_one(row, number, tries)
                fetch_row("SELECT feed_finish_batch(%s, %s, %s)", feed, number, token)
            return "finished"
        except Exception as error:
            (is_dead,) = fetch_row(FAIL, feed, number, token, str(error))
            return f"{'dead' if is_dead else 'will be tried again'}: {error}"

    def process_one(self, row, number, tries):
        if tries == 1:
            return process(row)
        try:
            with transaction.atomic():  # a savepoint
                process(row)
                connection.check_constraints()  # checks this row now, instead of all rows at the commit
        except Exception as error:
            fetch_row("INSERT INTO dead_letters VALUES (%s, %s, %s) RETURNING 1", number, str(row.pk), str(error))
