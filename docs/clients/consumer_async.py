"""A worker on the feed mailer, by asyncio: each row of the table events arrives in the sink once."""

import asyncio
import os
import signal
import sys

from psycopg import AsyncConnection, Error

TAKE = "SELECT batch, token FROM feed_take_batch('mailer', %s, max_rows => 100, lease => '1 minute')"
ROWS = "SELECT json_agg(row)::text FROM feed_batch_rows('mailer', %s, null::events) AS row"
FAIL = "SELECT feed_fail_batch('mailer', %s, %s, %s, retry_after => '1 second')"


async def connect(name):
    return await AsyncConnection.connect(os.environ[name], autocommit=True, prepare_threshold=None)


async def work(source, sink):
    batch, token = await (await source.execute(TAKE, [sys.argv[1]])).fetchone()
    if batch is None:
        return await source.execute("SELECT feed_wait('mailer')")  # at most a second
    (rows,) = await (await source.execute(ROWS, [batch])).fetchone()
    try:
        await sink.execute("SELECT store_batch(%s, %s)", [batch, rows])
    except Error as error:
        await source.execute(FAIL, [batch, token, str(error)])
        raise
    return await source.execute("SELECT feed_finish_batch('mailer', %s, token => %s)", [batch, token])


async def main():
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    while not stop.is_set():
        try:
            async with await connect("SINK") as sink, await connect("SOURCE") as source:
                while not stop.is_set():
                    await work(source, sink)
        except Error as error:
            print(f"trying again: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(1)


asyncio.run(main())
