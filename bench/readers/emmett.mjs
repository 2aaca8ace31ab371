// emmett as a reader for inorder lab check. The program implements docs/check-protocol.md. Like an emmett consumer, each
// poll reads one batch and stores the global position of that batch.
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
