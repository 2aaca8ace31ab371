// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
import { setTimeout } from "node:timers/promises";
import pg from "pg";

// What notices a server that is gone without a word; the connection string may say otherwise.
const SILENCE = {
  connectionTimeoutMillis: 20000, keepAlive: true, keepAliveInitialDelayMillis: 10000, query_timeout: 25000,
};
let stopping = false;
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => { stopping = true; });
}

async function work(source, sink) {
  const { number, token, rows, tries, label } = (await source.query("CALL take_batch($1)", [process.argv[2]])).rows[0];
  if (number === null) return;
  const end = async (failure) =>
    (await source.query("SELECT end_batch($1, $2, $3) AS became", [number, token, failure])).rows[0].became;
  let stored;
  try {
    stored = await sink.query("SELECT store_batch($1, $2, $3) AS dead", [number, rows, tries]);
  } catch (error) {
    console.log(`${label}: ${await end(error.message)}: ${error.message}`);
    throw error;
  }
  console.log(`${label}: ${await end(null)}, ${stored.rows[0].dead} in dead_letters`);
}

while (!stopping) {
  const clients = ["SINK", "SOURCE"].map((name) => new pg.Client({ ...SILENCE, connectionString: process.env[name] }));
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
  await Promise.race([Promise.allSettled(clients.map((client) => client.end())), setTimeout(1000)]);
}
process.exit(0); // a connection that is silent is not waited for
