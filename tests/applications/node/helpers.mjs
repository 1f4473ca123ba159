// Helpers for several applications.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export { sleep };
export const PATIENCE_MS = 60_000;

const [host, port] = process.env.REDLOCK_ADDRESS.split(":");
export const SERVER = { host, port: Number(port) };
export const URL_OF_SERVER = `redis://${host}:${port}`;

// The packages are not next to this file, but where `run` has installed them.
export const load = createRequire(join(process.env.NODE_PACKAGES, "package.json"));

// Runs `action` as one check. If it fails, the program ends with a sentence that names it.
export async function check(name, action) {
  try {
    await within(action());
  } catch (error) {
    throw new Error(`the check ${name} failed: ${error.message}`, { cause: error });
  }
  console.log(`${name}\tpassed`);
}

// Reports a feature that not every server with this protocol has, and that the application can do
// without.
export async function has(name, condition) {
  console.log(`${name}\t${(await condition()) ? "passed" : "none"}`);
}

async function within(promise) {
  const given_up = new AbortController();
  const limit = sleep(PATIENCE_MS, undefined, { signal: given_up.signal }).then(() => assert.fail("it does not end"), () => {});
  try {
    return await Promise.race([promise, limit]);
  } finally {
    given_up.abort();
  }
}

export async function eventually(condition, what) {
  const limit = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < limit, `gave up waiting until ${what}`);
    await sleep(20);
  }
}

// Returns the first argument of the next such event.
export async function next(emitter, event) {
  const [value] = await once(emitter, event, { signal: AbortSignal.timeout(PATIENCE_MS) });
  return value;
}

export const range = (count) => Array.from({ length: count }, (_, i) => i);
