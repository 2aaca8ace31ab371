"""A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name."""

import os
import signal
import sys
from threading import Event

import psycopg

HOW = {"autocommit": True, "prepare_threshold": None}


def work(source, sink):
    batch, token, rows = source.execute("CALL take_batch(%s)", [sys.argv[1]]).fetchone()
    if batch is None:
        return
    try:
        sink.execute("SELECT store_batch(%s, %s)", [batch, rows])
    except psycopg.Error as error:
        source.execute("SELECT end_batch(%s, %s, %s)", [batch, token, str(error)])
        raise
    source.execute("SELECT end_batch(%s, %s, null)", [batch, token])


stop = Event()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stop.set())
while not stop.is_set():
    try:
        with psycopg.connect(os.environ["SINK"], **HOW) as sink, psycopg.connect(os.environ["SOURCE"], **HOW) as source:
            sink.execute("SELECT 1")  # while the sink is away, no batch is taken
            while not stop.is_set():
                work(source, sink)
    except psycopg.Error as error:
        print(f"trying again: {error}", file=sys.stderr, flush=True)
        stop.wait(1)
