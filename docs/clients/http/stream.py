"""Rows over HTTP: GET /changes?after=CURSOR returns a page, or a stream of Server-Sent Events. For uvicorn."""

import asyncio
import hmac
import os
import sys
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import asynccontextmanager, suppress
from functools import lru_cache

from psycopg import AsyncConnection, Error
from psycopg.conninfo import conninfo_to_dict
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

KEY = os.environ["STREAM_KEY"].encode() or sys.exit("STREAM_KEY is empty")
# These settings notice an unresponsive server after 20 seconds.
TIMEOUTS = {"connect_timeout": 20, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 2,
           "tcp_user_timeout": 20000}
GONE = "This server cannot continue from this cursor. Drop all rows, and begin without a cursor."


def signature(data):
    return hmac.digest(KEY, data, "sha256")[:16]


@lru_cache(100)
def sealed(cursor):
    data = zlib.compress(cursor.encode(), 9, -15)
    return urlsafe_b64encode(signature(data) + data).rstrip(b"=").decode()


def unsealed(text):
    data = urlsafe_b64decode(text + "==")
    if not hmac.compare_digest(data[:16], signature(data[16:])):
        raise ValueError
    return zlib.decompress(data[16:], -15).decode()


class Session:
    """A connection that is opened at its first use, and again after it was lost."""

    connection = None

    async def read(self, after, head):
        if self.connection is None or self.connection.closed:
            settings = {"autocommit": True, "prepare_threshold": None} | TIMEOUTS
            self.connection = await AsyncConnection.connect(**settings | conninfo_to_dict(os.environ["SOURCE"]))
        return await (await self.connection.execute("CALL stream_next(%s, %s)", [after, head])).fetchone()


class Stream:
    """One session waits for rows, and reads them for all clients at the head; another reads for clients behind it."""

    def __init__(self):
        self.head, self.steps, self.moved = None, {}, asyncio.Event()
        self.behind, self.turn = Session(), asyncio.Lock()

    def keep(self, after, step):
        if step[1] != after != "now":
            self.steps = {**self.steps, after: step} if len(self.steps) < 100 else {after: step}

    def move_to(self, head):
        self.head, moved, self.moved = head, self.moved, asyncio.Event()
        moved.set()

    async def follow(self):
        session = Session()
        while True:
            try:
                if self.head is None:
                    self.move_to((await session.read("now", None))[1])
                step = await session.read(self.head, None)
                self.keep(self.head, step)
                if step[1] != self.head:
                    self.move_to(step[1])
            except Error as error:
                print(f"trying again: {error}", file=sys.stderr, flush=True)
                if error.sqlstate == "55000":  # the server, the timeline or the table has changed
                    self.steps = {}
                    self.move_to(None)
                await asyncio.sleep(1)

    async def read(self, after):
        async with self.turn:
            step = self.steps.get(after) or await self.behind.read(after, self.head)
            self.keep(after, step)
            return step

    async def next(self, after):
        """Return the rows after a cursor, and the cursor after these rows: the same cursor if there are no rows."""
        if self.head is None:
            raise Error("the table cannot be read")
        if after == self.head or after in self.steps:
            return self.steps.get(after, ("[]", after))
        return await asyncio.shield(self.read(after))  # is completed even if the client disconnects

    async def events(self, after, moved, rows, cursor):
        with suppress(Error):  # the client connects again, with its last cursor
            while True:
                if cursor != after:
                    yield f"id: {sealed(cursor)}\ndata: {rows}\n\n"
                else:
                    try:
                        await asyncio.wait_for(moved.wait(), 15)
                    except TimeoutError:
                        yield ":\n\n"  # shows client and service that the connection exists
                after, moved = cursor, self.moved
                rows, cursor = await self.next(after)

    async def answer(self, request):
        after, moved = request.headers.get("last-event-id") or request.query_params.get("after", ""), self.moved
        try:
            after = after if after in ("", "now") else unsealed(after)
            rows, cursor = await self.next(after)
        except ValueError:
            return Response("This service has not signed this cursor.", 400)
        except Error as error:
            return Response(GONE, 410) if error.sqlstate == "55000" else Response("Try again.", 503)
        if request.method == "GET" and "text/event-stream" in request.headers.get("accept", ""):
            return StreamingResponse(self.events(after, moved, rows, cursor), media_type="text/event-stream")
        return Response(f'{{"rows": {rows}, "next": "{sealed(cursor)}"}}', media_type="application/json")


stream = Stream()


@asynccontextmanager
async def following(_):
    task = asyncio.create_task(stream.follow())
    yield
    task.cancel()


app = Starlette(routes=[Route("/changes", stream.answer)], lifespan=following)
