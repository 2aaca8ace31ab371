// A reader for inorder lab check. Replace the query with yours; docs/check-protocol.md describes the protocol.
import { createInterface } from "node:readline";
import pg from "pg";

const client = new pg.Client();
await client.connect();
for await (const line of createInterface({ input: process.stdin })) {
  let last = JSON.parse(line).last ?? "0";
  const { rows } = await client.query("SELECT id FROM events WHERE id > $1 ORDER BY id", [last]);
  for (const { id } of rows) {
    console.log(JSON.stringify(id));
    last = id;
  }
  console.log(JSON.stringify({ last }));
}
await client.end();
