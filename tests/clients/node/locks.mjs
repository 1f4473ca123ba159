// Locks of ioredis, node-redis and node-redlock, exactly as applications take them, against whatever listens at REDLOCK_ADDRESS.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Redis as Ioredis6 } from "ioredis";
import Ioredis5 from "ioredis5";
import { createClient } from "redis";
import Redlock from "redlock";

const [host, port] = process.env.REDLOCK_ADDRESS.split(":");
const PATIENCE_MS = 20_000;

const RELEASE = `if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;
const EXTEND = `if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
else
  return 0
end`;

async function main() {
  for (const [name, Redis] of [["ioredis 6", Ioredis6], ["ioredis 5", Ioredis5]]) {
    await withIoredis(name, Redis, locks);
    await withIoredis(name, Redis, timestampLock);
    await withIoredis(name, Redis, pipeline);
    await withIoredis(name, Redis, lockRunsOut);
  }
  await withIoredis("node-redlock 3", Ioredis5, redlock);
  for (const RESP of [2, 3]) await nodeRedis(RESP);
  console.log("all locks held");
}

async function locks(client) {
  client.defineCommand("release", { numberOfKeys: 1, lua: RELEASE });
  client.defineCommand("prolong", { numberOfKeys: 1, lua: EXTEND });
  const key = newKey();
  assert.equal(await client.set(key, "mine", "PX", 60_000, "NX"), "OK");
  assert.equal(await client.set(key, "other", "PX", 60_000, "NX"), null);
  assert.equal(await client.prolong(key, "other", 90_000), 0);
  assert.equal(await client.prolong(key, "mine", 90_000), 1);
  assert.ok((await client.pttl(key)) > 60_000);
  assert.equal(await client.release(key, "other"), 0);
  assert.equal(await client.get(key), "mine");
  assert.equal(await client.release(key, "mine"), 1);
  assert.equal(await client.get(key), null);
  await assert.rejects(client.call("SET", key), /wrong number of arguments/);
}

async function timestampLock(client) {
  const key = newKey();
  assert.equal(await client.setnx(key, "1000"), 1);
  assert.equal(await client.setnx(key, "1001"), 0);
  assert.equal(await client.getset(key, "2000"), "1000");
  assert.equal(await client.getset(key, "2001"), "2000");
  assert.equal(await client.del(key), 1);
}

async function pipeline(client) {
  const keys = Array.from({ length: 200 }, newKey);
  const batch = client.pipeline();
  for (const key of keys) batch.set(key, "mine", "PX", 60_000, "NX").get(key).del(key);
  const replies = (await batch.exec()).map(([error, reply]) => error ?? reply);
  assert.deepEqual(replies, keys.flatMap(() => ["OK", "mine", 1]));
}

async function lockRunsOut(client) {
  const key = newKey();
  assert.equal(await client.set(key, "mine", "PX", 20, "NX"), "OK");
  await eventually(async () => (await client.set(key, "next", "PX", 60_000, "NX")) === "OK");
  assert.equal(await client.get(key), "next");
  assert.equal(await client.del(key), 1);
}

async function redlock(client) {
  const manager = new Redlock([client], { retryCount: 0 });
  const key = newKey();
  let lock = await manager.lock(key, 60_000);
  await assert.rejects(manager.lock(key, 60_000), { name: "LockError" });
  lock = await lock.extend(90_000);
  assert.ok((await client.pttl(key)) > 60_000);
  await lock.unlock();
  lock = await manager.lock(key, 60_000);
  await lock.unlock();
  assert.equal(await client.exists(key), 0);
}

async function nodeRedis(RESP) {
  console.log(`node-redis 6 RESP${RESP}`);
  const client = createClient({ socket: { host, port: Number(port) }, RESP });
  await client.connect();
  const key = newKey();
  const eval_ = (script, ...args) => client.eval(script, { keys: [key], arguments: args });
  try {
    assert.equal(await client.set(key, "mine", { NX: true, PX: 60_000 }), "OK");
    assert.equal(await client.set(key, "other", { NX: true, PX: 60_000 }), null);
    assert.equal(await eval_(EXTEND, "mine", "90000"), 1);
    assert.ok((await client.pTTL(key)) > 60_000);
    assert.equal(await eval_(RELEASE, "other"), 0);
    assert.equal(await eval_(RELEASE, "mine"), 1);
    assert.equal(await client.getSet(key, "first"), null);
    assert.equal(await client.getSet(key, "second"), "first");
    const replies = await Promise.all([client.get(key), client.del(key), client.exists(key)]);
    assert.deepEqual(replies, ["second", 1, 0]);
  } finally {
    client.destroy();
  }
}

async function withIoredis(name, Redis, test) {
  console.log(`${name} ${test.name}`);
  const client = new Redis({ host, port: Number(port), connectTimeout: PATIENCE_MS });
  try {
    await test(client);
  } finally {
    client.disconnect();
  }
}

async function eventually(condition) {
  const limit = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < limit, "gave up waiting");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function newKey() {
  return `lock ${randomUUID()}`;
}

await main();
