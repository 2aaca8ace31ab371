import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";

test("the reader loses no row", { timeout: 600_000 }, () => {
  const options = ["lab", "check", "--program", "node reader.mjs", "--schedules", "20"];
  const { status, stdout, stderr } = spawnSync("inorder", options, { encoding: "utf8" });
  expect(status, stdout + stderr).toBe(0);
});
