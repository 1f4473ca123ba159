// ioredis: SET NX PX, and scripts as custom commands (EVALSHA, then EVAL).

import assert from "node:assert/strict";
import { EXTEND, PATIENCE_MS, RELEASE, load, newName } from "../helpers.mjs";
import { PlainLock } from "./plain.mjs";

export function connect(server, packageName) {
  const client = newClient(server, packageName);
  client.defineCommand("release", { numberOfKeys: 1, lua: RELEASE });
  client.defineCommand("prolong", { numberOfKeys: 1, lua: EXTEND });
  const driver = {
    claim: (name, token, ttl) => client.set(name, token, "PX", ttl, "NX"),
    prolong: (name, token, ttl) => client.prolong(name, token, ttl),
    release: (name, token) => client.release(name, token),
  };
  return {
    client,
    lock: (name, ttl) => new PlainLock(driver, name, ttl),
    pttl: (key) => client.pttl(key),
    more: { timestamps, pipeline, errors },
  };
}

export function newClient(server, packageName) {
  const { Redis } = load(packageName);
  return new Redis({ ...server, connectTimeout: PATIENCE_MS });
}

// The kind of lock used before SET NX PX existed: its value is the time at which it expires.
async function timestamps({ client }) {
  const key = newName();
  assert.equal(await client.setnx(key, "1000"), 1);
  assert.equal(await client.setnx(key, "1001"), 0);
  assert.equal(await client.getset(key, "2000"), "1000");
  assert.equal(await client.getset(key, "2001"), "2000");
  assert.equal(await client.del(key), 1);
}

async function pipeline({ client }) {
  const keys = Array.from({ length: 200 }, newName);
  const batch = client.pipeline();
  for (const key of keys) batch.set(key, "mine", "PX", 60_000, "NX").get(key).del(key);
  const replies = (await batch.exec()).map(([error, reply]) => error ?? reply);
  assert.deepEqual(replies, keys.flatMap(() => ["OK", "mine", 1]));
}

async function errors({ client }) {
  await assert.rejects(client.call("SET", newName()), /wrong number of arguments/);
}
