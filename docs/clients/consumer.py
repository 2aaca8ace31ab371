"""A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name."""

import os
import signal
import sys
from threading import Event

import psycopg

TAKE = "SELECT batch, token FROM feed_take_batch('mailer', %s, max_rows => 100, lease => '1 minute')"
ROWS = "SELECT json_agg(row)::text FROM feed_batch_rows('mailer', %s, null::events) AS row"
FAIL = "SELECT feed_fail_batch('mailer', %s, %s, %s, retry_after => '1 second')"
HOW = {"autocommit": True, "prepare_threshold": None}


def work(source, sink):
    batch, token = source.execute(TAKE, [sys.argv[1]]).fetchone()
    if batch is None:
        return source.execute("SELECT feed_wait('mailer')")  # at most a second
    (rows,) = source.execute(ROWS, [batch]).fetchone()
    try:
        sink.execute("SELECT store_batch(%s, %s)", [batch, rows])
    except psycopg.Error as error:
        source.execute(FAIL, [batch, token, str(error)])
        raise
    return source.execute("SELECT feed_finish_batch('mailer', %s, token => %s)", [batch, token])


stop = Event()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stop.set())
while not stop.is_set():
    try:
        with psycopg.connect(os.environ["SINK"], **HOW) as sink, psycopg.connect(os.environ["SOURCE"], **HOW) as source:
            while not stop.is_set():
                work(source, sink)
    except psycopg.Error as error:
        print(f"trying again: {error}", file=sys.stderr, flush=True)
        stop.wait(1)
