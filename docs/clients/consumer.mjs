// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
import { setTimeout } from "node:timers/promises";
import pg from "pg";

const TAKE = "SELECT batch, token FROM feed_take_batch('mailer', $1, max_rows => 100, lease => '1 minute')";
const ROWS = "SELECT json_agg(row)::text AS rows FROM feed_batch_rows('mailer', $1, null::events) AS row";
const FAIL = "SELECT feed_fail_batch('mailer', $1, $2, $3, retry_after => '1 second')";
const FINISH = "SELECT feed_finish_batch('mailer', $1, token => $2)";

let stopping = false;
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => { stopping = true; });

async function work(source, sink) {
  const { batch, token } = (await source.query(TAKE, [process.argv[2]])).rows[0];
  if (batch === null) return source.query("SELECT feed_wait('mailer')"); // at most a second
  const { rows } = (await source.query(ROWS, [batch])).rows[0];
  try {
    await sink.query("SELECT store_batch($1, $2)", [batch, rows]);
  } catch (error) {
    await source.query(FAIL, [batch, token, error.message]);
    throw error;
  }
  return source.query(FINISH, [batch, token]);
}

while (!stopping) {
  const clients = [process.env.SINK, process.env.SOURCE].map((dsn) => new pg.Client(dsn));
  const [sink, source] = clients;
  try {
    for (const client of clients) {
      client.on("error", () => {}); // the next query fails, too
      await client.connect();
    }
    while (!stopping) await work(source, sink);
  } catch (error) {
    console.error(`trying again: ${error.message}`);
    await setTimeout(1000);
  }
  await Promise.allSettled(clients.map((client) => client.end()));
}
