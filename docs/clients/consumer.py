"""A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name."""

import os
import signal
import sys
from threading import Event

import psycopg
from psycopg.conninfo import conninfo_to_dict

if len(sys.argv) != 2 or not {"SOURCE", "SINK"} <= os.environ.keys():
    sys.exit("usage: SOURCE=DSN SINK=DSN consumer.py WORKER")
SETTINGS = {"autocommit": True, "prepare_threshold": None}
# These settings notice an unresponsive server after 20 seconds.
TIMEOUTS = {"connect_timeout": 20, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 2,
           "tcp_user_timeout": 20000}
END = "SELECT end_batch(%s, %s, %s)"


def message(error):
    return error.diag.message_primary or str(error)  # without the CONTEXT


def connect(name):
    return psycopg.connect(**SETTINGS | TIMEOUTS | conninfo_to_dict(os.environ[name]))


def work(source, sink):
    batch, token, rows, tries, label = source.execute("CALL take_batch(%s)", [sys.argv[1]]).fetchone()
    if batch is None:
        return
    try:
        dead_rows = sink.execute("SELECT store_batch(%s, %s, %s)", [batch, rows, tries]).fetchone()[0]
    except psycopg.Error as error:
        result = source.execute(END, [batch, token, message(error)]).fetchone()[0]
        print(f"{label}: {result}: {message(error)}", flush=True)
        raise
    result = source.execute(END, [batch, token, None]).fetchone()[0]
    print(f"{label}: {result}, {dead_rows} in dead_letters", flush=True)


stop = Event()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stop.set())
while not stop.is_set():
    try:
        with connect("SINK") as sink, connect("SOURCE") as source:
            sink.execute("SELECT 1")  # no batch is taken while the sink is unavailable
            while not stop.is_set():
                work(source, sink)
    except psycopg.Error as error:
        print(f"trying again: {message(error)}", file=sys.stderr, flush=True)
        stop.wait(1)
