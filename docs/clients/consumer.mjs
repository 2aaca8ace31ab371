// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
import { setTimeout } from "node:timers/promises";
import pg from "pg";

let stopping = false;
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => { stopping = true; });
}

async function work(source, sink) {
  const { batch, token, rows } = (await source.query("CALL take_batch($1)", [process.argv[2]])).rows[0];
  if (batch === null) return;
  try {
    await sink.query("SELECT store_batch($1, $2)", [batch, rows]);
  } catch (error) {
    await source.query("SELECT end_batch($1, $2, $3)", [batch, token, String(error)]);
    throw error;
  }
  await source.query("SELECT end_batch($1, $2, null)", [batch, token]);
}

while (!stopping) {
  const clients = [process.env.SINK, process.env.SOURCE].map((dsn) => new pg.Client(dsn));
  const [sink, source] = clients;
  try {
    for (const client of clients) {
      client.on("error", () => {}); // the next query fails, too
      await client.connect();
    }
    await sink.query("SELECT 1"); // while the sink is away, no batch is taken
    while (!stopping) await work(source, sink);
  } catch (error) {
    console.error(`trying again: ${error}`);
    await setTimeout(1000);
  }
  await Promise.allSettled(clients.map((client) => client.end()));
}
