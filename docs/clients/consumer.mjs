// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
import { setTimeout } from "node:timers/promises";
import pg from "pg";

// These settings notice an unresponsive server; the connection string may override them.
const TIMEOUTS = {
  connectionTimeoutMillis: 20000, keepAlive: true, keepAliveInitialDelayMillis: 10000, query_timeout: 25000,
};
let stopping = false;
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => { stopping = true; });
}

async function work(source, sink) {
  const { number, token, rows, tries, label } = (await source.query("CALL take_batch($1)", [process.argv[2]])).rows[0];
  if (number === null) return;
  const endBatch = async (failure) =>
    (await source.query("SELECT end_batch($1, $2, $3) AS result", [number, token, failure])).rows[0].result;
  let stored;
  try {
    stored = await sink.query("SELECT store_batch($1, $2, $3) AS dead_rows", [number, rows, tries]);
  } catch (error) {
    console.log(`${label}: ${await endBatch(error.message)}: ${error.message}`);
    throw error;
  }
  console.log(`${label}: ${await endBatch(null)}, ${stored.rows[0].dead_rows} in dead_letters`);
}

while (!stopping) {
  const clients = ["SINK", "SOURCE"].map((name) => new pg.Client({ ...TIMEOUTS, connectionString: process.env[name] }));
  const [sink, source] = clients;
  try {
    for (const client of clients) {
      client.on("error", () => {}); // the next query reports the error
      await client.connect();
    }
    await sink.query("SELECT 1"); // no batch is taken while the sink is unavailable
    while (!stopping) await work(source, sink);
  } catch (error) {
    console.error(`trying again: ${error}`);
    await setTimeout(1000);
  }
  await Promise.race([Promise.allSettled(clients.map((client) => client.end())), setTimeout(1000)]);
}
process.exit(0); // does not wait for an unresponsive connection
