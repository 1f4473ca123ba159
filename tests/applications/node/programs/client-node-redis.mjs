// node-redis as applications use it: a pool for transactions, a duplicate that subscribes, scripts,
// and a lock.

import assert from "node:assert/strict";
import { URL_OF_SERVER, check, eventually, load, range } from "../helpers.mjs";

const { WatchError, createClient, createClientPool, defineScript } = load("redis");

const RELEASE = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end',
  parseCommand: (parser, key, token) => {
    parser.pushKey(key);
    parser.push(token);
  },
  transformReply: undefined,
});

export async function run(application) {
  const options = { url: URL_OF_SERVER, RESP: application.endsWith("resp3") ? 3 : 2, scripts: { release: RELEASE } };
  const client = await createClient(options).connect();
  const pool = await createClientPool(options, { minimum: 1, maximum: 5 }).connect();

  await check("commands at once", async () => {
    const replies = await Promise.all(
      range(500).flatMap((i) => [client.set(`product:${i}`, i), client.incrBy(`product:${i}`, 1000), client.get(`product:${i}`)]),
    );
    assert.deepEqual(replies, range(500).flatMap((i) => ["OK", 1000 + i, String(1000 + i)]));
  });
  await check("types", async () => {
    assert.equal(await client.hSet("shop:owner", { name: "Ann", town: "Ulm" }), 2);
    assert.deepEqual({ ...(await client.hGetAll("shop:owner")) }, { name: "Ann", town: "Ulm" });
    assert.equal(await client.zAdd("shop:prices", [{ value: "pen", score: 1.5 }, { value: "book", score: 20 }]), 2);
    assert.deepEqual(await client.zRangeWithScores("shop:prices", 0, 0), [{ value: "pen", score: 1.5 }]);
    assert.deepEqual(await client.mGet(["product:1", "nothing"]), ["1001", null]);
  });
  await check("scan", async () => {
    const found = new Set();
    for await (const keys of client.scanIterator({ MATCH: "product:*", COUNT: 100 })) keys.forEach((key) => found.add(key));
    assert.equal(found.size, 500);
  });
  await check("pool", async () => {
    await client.set("shop:sold", 0);
    await Promise.all(range(20).map(() => pool.execute(sellOne)));
    assert.equal(await client.get("shop:sold"), "20", "sales got lost");
  });
  await check("transaction", async () => {
    assert.deepEqual(await client.multi().set("shop:a", 1).incr("shop:a").get("shop:a").exec(), ["OK", 2, "2"]);
    assert.deepEqual(await client.multi().lPush("shop:list", "a").lLen("shop:list").execAsPipeline(), [1, 1]);
  });
  await check("pub/sub", () => tell(client));
  await check("blocking", async () => {
    const waiting = await client.duplicate().connect();
    const popped = waiting.blPop("shop:queue", 30);
    await client.rPush("shop:queue", "work");
    assert.deepEqual({ ...(await popped) }, { key: "shop:queue", element: "work" });
    await waiting.close();
  });
  await check("lock", () => hold(client, pool));
  await check("lock in a transaction", () => holdWatched(pool));
  await pool.close();
  await client.close();
}

// Reads, and writes if nobody else has written since.
async function sellOne(client) {
  for (;;) {
    await client.watch("shop:sold");
    const sold = Number(await client.get("shop:sold"));
    try {
      return await client.multi().set("shop:sold", sold + 1).exec();
    } catch (error) {
      if (!(error instanceof WatchError)) throw error;
    }
  }
}

async function tell(client) {
  const subscriber = await client.duplicate().connect();
  const heard = [];
  await subscriber.subscribe("news", (message) => heard.push(message));
  await subscriber.pSubscribe("weather.*", (message, channel) => heard.push(`${channel}: ${message}`));
  assert.equal(await client.publish("news", "rain"), 1);
  assert.equal(await client.publish("weather.today", "sun"), 1);
  await eventually(() => heard.length === 2, "both messages have come");
  assert.deepEqual(heard, ["rain", "weather.today: sun"]);
  await subscriber.unsubscribe("news");
  assert.equal(await client.publish("news", "snow"), 0);
  await subscriber.close();
}

async function hold(client, pool) {
  const claim = (token) => pool.set("lock:night", token, { condition: "NX", expiration: { type: "PX", value: 600_000 } });
  const replies = await Promise.all(range(10).map((i) => claim(`token ${i}`)));
  assert.equal(replies.filter((reply) => reply === "OK").length, 1, "one of ten gets the lock");
  const token = await client.get("lock:night");
  assert.equal(await client.release("lock:night", "a stranger"), 0);
  assert.equal(await client.release("lock:night", token), 1);
  // Held at the end.
  assert.equal(await claim("last"), "OK");
}

// Takes a lock only if nobody has touched it, as redis.io's page on transactions suggests.
async function holdWatched(pool) {
  await pool.execute(async (client) => {
    await client.watch("lock:day");
    assert.equal(await client.get("lock:day"), null);
    await client.multi().set("lock:day", "mine", { condition: "NX", expiration: { type: "PX", value: 60_000 } }).exec();
    await client.watch("lock:day");
    await pool.del("lock:day");
    await assert.rejects(client.multi().pExpire("lock:day", 90_000).exec(), WatchError);
  });
}
