"""A worker on the feed mailer, with asyncio: each row of the table events arrives in the sink once."""

import asyncio
import os
import signal
import sys
from functools import partial

from psycopg import AsyncConnection, Error
from psycopg.conninfo import conninfo_to_dict

if len(sys.argv) != 2 or not {"SOURCE", "SINK"} <= os.environ.keys():
    sys.exit("usage: SOURCE=DSN SINK=DSN consumer_async.py WORKER")
# These settings notice an unresponsive server after 20 seconds.
TIMEOUTS = {"connect_timeout": 20, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 2,
           "tcp_user_timeout": 20000}


def message(error):
    return error.diag.message_primary or str(error)  # without the CONTEXT


async def work(source, sink):
    batch, token, rows, tries, label = await (await source.execute("CALL take_batch(%s)", [sys.argv[1]])).fetchone()
    if batch is not None:
        end_batch = partial(source.execute, "SELECT end_batch(%s, %s, %s)")
        try:
            stored = await sink.execute("SELECT store_batch(%s, %s, %s)", [batch, rows, tries])
        except Error as error:
            (result,) = await (await end_batch([batch, token, message(error)])).fetchone()
            print(f"{label}: {result}: {message(error)}", flush=True)
            raise
        (result,) = await (await end_batch([batch, token, None])).fetchone()
        print(f"{label}: {result}, {(await stored.fetchone())[0]} in dead_letters", flush=True)


async def connect(name):
    settings = {"autocommit": True, "prepare_threshold": None} | TIMEOUTS | conninfo_to_dict(os.environ[name])
    return await AsyncConnection.connect(**settings)


async def main():
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    while not stop.is_set():
        try:
            async with await connect("SINK") as sink, await connect("SOURCE") as source:
                await sink.execute("SELECT 1")  # no batch is taken while the sink is unavailable
                while not stop.is_set():
                    await work(source, sink)
        except Error as error:
            print(f"trying again: {message(error)}", file=sys.stderr, flush=True)
            await asyncio.sleep(1)


asyncio.run(main())
