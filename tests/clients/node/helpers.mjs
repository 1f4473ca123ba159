// Helpers for the checks of several libraries.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export { sleep };
export const PATIENCE_MS = 20_000;
export const LONG_MS = 60_000;
export const LONGER_MS = 90_000;
export const RETRY_DELAY_MS = 20;

// The packages are not next to this file, but where `run` has installed them.
export const load = createRequire(join(process.env.NODE_PACKAGES, "package.json"));

// The script on the Redis manual's page on SET.
export const RELEASE = `if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;
export const EXTEND = `if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
else
  return 0
end`;

export const newName = () => `lock ${randomUUID()}`;

export async function eventually(condition, patience = PATIENCE_MS) {
  const limit = Date.now() + patience;
  while (!(await condition())) {
    assert.ok(Date.now() < limit, "gave up waiting");
    await sleep(10);
  }
}

// Lets the harness break something while a lock is held, and continues when that is done.
export async function middle() {
  const path = process.env.REDLOCK_MIDDLE;
  if (!path) return;
  writeFileSync(path, "", { flag: "wx" });
  await eventually(() => existsSync(`${path}.done`), 30_000);
}
