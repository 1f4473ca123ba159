// ioredis as applications use it: all kinds of commands for data, and a lock whose release is
// announced on a channel.

import assert from "node:assert/strict";
import { SERVER, check, eventually, load, next, range } from "../helpers.mjs";

const { Redis } = load("ioredis");

const RELEASE = `if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("del", KEYS[1])
redis.call("publish", ARGV[2], ARGV[1])
return 1`;
const TRANSFER = `redis.call("decrby", KEYS[1], ARGV[1])
return redis.call("incrby", KEYS[2], ARGV[1])`;

export async function run() {
  const client = new Redis(SERVER);
  client.defineCommand("transfer", { numberOfKeys: 2, lua: TRANSFER });

  await check("pipeline", async () => {
    const pipeline = client.pipeline();
    for (const i of range(500)) pipeline.set(`product:${i}`, i).incrby(`product:${i}`, 1000).get(`product:${i}`);
    const replies = (await pipeline.exec()).map(([error, reply]) => error ?? reply);
    assert.deepEqual(replies, range(500).flatMap((i) => ["OK", 1000 + i, String(1000 + i)]));
  });
  await check("locks and data in a pipeline", async () => {
    const pipeline = client.pipeline();
    for (const i of range(100)) {
      pipeline.set(`lock:${i}`, "mine", "PX", 60_000, "NX").incr("shop:locked").get(`lock:${i}`).rpush("shop:list", i);
      pipeline.del(`lock:${i}`);
    }
    const replies = (await pipeline.exec()).map(([error, reply]) => error ?? reply);
    assert.deepEqual(replies, range(100).flatMap((i) => ["OK", i + 1, "mine", i + 1, 1]));
  });
  await check("many keys", async () => {
    const keys = range(500).map((i) => `product:${i}`);
    assert.deepEqual(await client.mget(keys), range(500).map((i) => String(1000 + i)));
    const found = [];
    for await (const page of client.scanStream({ match: "product:*", count: 100 })) found.push(...page);
    assert.equal(new Set(found).size, 500);
    assert.equal(await client.unlink(keys), 500);
  });
  await check("large value", async () => {
    const picture = Buffer.alloc(900_000, "picture ");
    await client.set("shop:picture", picture);
    assert.ok(picture.equals(await client.getBuffer("shop:picture")));
  });
  await check("transaction", () => transact(client));
  await check("script", async () => {
    await client.mset("account:ann", 100, "account:bob", 0);
    assert.equal(await client.transfer("account:ann", "account:bob", 30), 30);
    const replies = await client.pipeline().transfer("account:ann", "account:bob", 10).get("account:ann").exec();
    assert.deepEqual(replies, [[null, 40], [null, "60"]]);
  });
  await check("pub/sub", () => tell(client));
  await check("blocking", () => wait(client));
  await check("stream", () => stream(client));
  await check("lock", () => hold(client));
  await client.quit();
}

async function transact(client) {
  const replies = await client.multi().set("shop:a", 1).incr("shop:a").hset("shop:b", "c", "d").exec();
  assert.deepEqual(replies, [[null, "OK"], [null, 2], [null, 1]]);
  const other = client.duplicate();
  await client.watch("shop:a");
  await other.set("shop:a", 5);
  assert.equal(await client.multi().incr("shop:a").exec(), null, "a watched key was changed, and the transaction ran");
  assert.equal(await client.get("shop:a"), "5");
  const [[wrong], [, right]] = await client.multi().lpush("shop:a", 1).get("shop:a").exec();
  assert.match(wrong.message, /WRONGTYPE/);
  assert.equal(right, "5");
  await other.quit();
}

async function tell(client) {
  const subscriber = client.duplicate();
  assert.equal(await subscriber.subscribe("news", "lock-released:x"), 2);
  assert.equal(await subscriber.psubscribe("weather.*"), 3);
  const heard = [];
  subscriber.on("message", (channel, message) => heard.push([channel, message]));
  subscriber.on("pmessage", (pattern, channel, message) => heard.push([pattern, channel, message]));
  assert.equal(await client.publish("news", "rain"), 1);
  assert.equal(await client.publish("weather.today", "sun"), 1);
  assert.equal(await client.publish("nobody", "hears"), 0);
  await eventually(() => heard.length === 2, "both messages have come");
  assert.deepEqual(heard, [["news", "rain"], ["weather.*", "weather.today", "sun"]]);
  assert.equal(await subscriber.unsubscribe("news"), 2);
  assert.equal(await client.publish("news", "snow"), 0);
  await subscriber.quit();
}

async function wait(client) {
  const waiting = client.duplicate();
  const popped = waiting.blpop("shop:queue", "shop:other", 30);
  await client.rpush("shop:other", "work");
  assert.deepEqual(await popped, ["shop:other", "work"]);
  assert.equal(await waiting.blpop("shop:queue", 0.1), null);
  await waiting.quit();
}

async function stream(client) {
  await client.xgroup("CREATE", "shop:orders", "packers", "$", "MKSTREAM");
  const packer = client.duplicate();
  const order = packer.xreadgroup("GROUP", "packers", "ann", "BLOCK", 30_000, "STREAMS", "shop:orders", ">");
  const id = await client.xadd("shop:orders", "*", "product", "pen");
  assert.deepEqual(await order, [["shop:orders", [[id, ["product", "pen"]]]]]);
  assert.equal(await client.xack("shop:orders", "packers", id), 1);
  await packer.quit();
}

// A client waiting for the lock gets a message when it is free.
async function hold(client) {
  client.defineCommand("release", { numberOfKeys: 1, lua: RELEASE });
  const waiting = client.duplicate();
  await waiting.subscribe("lock-released:night");
  assert.equal(await client.set("lock:night", "mine", "PX", 600_000, "NX"), "OK");
  assert.equal(await client.set("lock:night", "theirs", "PX", 600_000, "NX"), null);
  assert.equal(await client.release("lock:night", "theirs", "lock-released:night"), 0);
  const told = next(waiting, "message");
  assert.equal(await client.release("lock:night", "mine", "lock-released:night"), 1);
  assert.equal(await told, "lock-released:night");
  // Held at the end.
  assert.equal(await client.set("lock:night", "theirs", "PX", 600_000, "NX"), "OK");
  await waiting.quit();
}
