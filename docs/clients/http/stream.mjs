// Rows over HTTP: GET /changes?after=CURSOR returns a page, or a stream of Server-Sent Events. On Express.
import { createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import express from "express";
import pg from "pg";

// These settings notice an unresponsive server; the connection string may override them.
const TIMEOUTS = {
  connectionTimeoutMillis: 20000, keepAlive: true, keepAliveInitialDelayMillis: 10000, query_timeout: 25000,
};
const GONE = "This server cannot continue from this cursor. Drop all rows, and begin without a cursor.";
if (!process.env.STREAM_KEY) throw new Error("STREAM_KEY is empty");
const pool = new pg.Pool({ ...TIMEOUTS, connectionString: process.env.SOURCE, max: 2 });
pool.on("error", () => {}); // the next query connects again

const signature = (data) => createHmac("sha256", process.env.STREAM_KEY).update(data).digest().subarray(0, 16);

function sealed(cursor) {
  const data = deflateRawSync(cursor, { level: 9 });
  return Buffer.concat([signature(data), data]).toString("base64url");
}

function unsealed(text) {
  const data = Buffer.from(text, "base64url");
  if (data.length < 16 || !timingSafeEqual(data.subarray(0, 16), signature(data.subarray(16)))) return null;
  return inflateRawSync(data.subarray(16)).toString();
}

const read = async (after, head) => (await pool.query("CALL stream_next($1, $2)", [after, head])).rows[0];

const steps = new Map();
let head, wake = () => {}, moved, turn = Promise.resolve();

function moveTo(cursor) {
  head = cursor;
  wake();
  moved = new Promise((resolve) => { wake = resolve; });
}

function keep(after, step) {
  if (step.next === after || after === "now") return step;
  if (steps.size === 100) steps.clear();
  steps.set(after, step);
  return step;
}

// Wait for rows, and read them for all clients at the head.
async function follow() {
  for (;;) {
    try {
      if (head === null) moveTo((await read("now", null)).next);
      const step = keep(head, await read(head, null));
      if (step.next !== head) moveTo(step.next);
    } catch (error) {
      console.error(`trying again: ${error}`);
      if (error.code === "55000") { // the server, the timeline or the table has changed
        steps.clear();
        moveTo(null);
      }
      await setTimeout(1000);
    }
  }
}

// Return the rows after a cursor, and the cursor after these rows: the same cursor if there are no rows. Clients behind
// the head take turns, because the rows that a client needs may have been read for an earlier client.
async function next(after) {
  if (head === null) throw new Error("the table cannot be read");
  if (after === head) return { rows: "[]", next: after };
  if (steps.has(after)) return steps.get(after);
  const step = turn.then(async () => keep(after, steps.get(after) ?? await read(after, head)));
  turn = step.catch(() => {});
  return step;
}

async function answer(request, response) {
  let after = request.get("last-event-id") || request.query.after || "", change = moved, step;
  const closed = new Promise((resolve) => { response.on("close", resolve); });
  try {
    if (after !== "" && after !== "now") after = unsealed(after);
    if (after === null) return response.status(400).send("This service has not signed this cursor.");
    step = await next(after);
  } catch (error) {
    return error.code === "55000" ? response.status(410).send(GONE) : response.status(503).send("Try again.");
  }
  if (request.method === "HEAD" || !request.get("accept")?.includes("text/event-stream")) {
    return response.type("json").send(`{"rows": ${step.rows}, "next": "${sealed(step.next)}"}`);
  }
  response.set({ "Content-Type": "text/event-stream", "Cache-Control": "no-store" }).flushHeaders();
  // Shows client and service that the connection exists; a client that does not read gets no more of these lines.
  const beat = setInterval(() => response.writableLength || response.write(":\n\n"), 15000);
  while (step && !response.closed) {
    if (step.next === after) await Promise.race([change, closed]);
    else if (!response.write(`id: ${sealed(step.next)}\ndata: ${step.rows}\n\n`)) {
      await Promise.race([once(response, "drain"), closed]);
    }
    after = step.next;
    change = moved;
    step = await next(after).catch(() => null);
  }
  clearInterval(beat);
  response.end(); // the client connects again, with its last cursor
}

moveTo(null);
follow();
express().get("/changes", answer).listen(Number(process.env.PORT), "127.0.0.1");
