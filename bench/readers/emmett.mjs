// emmett as a reader of inorder lab check: a program that implements docs/check-protocol.md. A poll reads one batch, as
// consumers of emmett do, and stores the same position as they do.
import { createInterface } from "node:readline";
import { dumbo } from "@event-driven-io/dumbo";
import { readMessagesBatch } from "@event-driven-io/emmett-postgresql";

const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env;
const address = new URLSearchParams({ host: PGHOST, port: PGPORT ?? "5432", user: PGUSER ?? "" });
const { execute } = dumbo({ connectionString: `postgresql://localhost/${PGDATABASE}?${address}` });

for await (const line of createInterface({ input: process.stdin })) {
  const after = BigInt(JSON.parse(line).last ?? 0);
  const { messages, currentGlobalPosition } = await readMessagesBatch(execute, { after, batchSize: 100 });
  for (const { metadata } of messages) console.log(String(metadata.globalPosition));
  console.log(JSON.stringify({ last: String(currentGlobalPosition) }));
}
process.exit(0);
