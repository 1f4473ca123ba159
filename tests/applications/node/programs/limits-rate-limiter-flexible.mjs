// rate-limiter-flexible over ioredis: its counters with and without a script, bursts, blocks and a
// queue.

import assert from "node:assert/strict";
import { SERVER, check, load, range } from "../helpers.mjs";

const { Redis } = load("ioredis");
const { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis, RateLimiterRedisNonAtomic, RateLimiterUnion } =
  load("rate-limiter-flexible");

export async function run() {
  const storeClient = new Redis(SERVER);
  const limiter = (keyPrefix, more, Limiter = RateLimiterRedis) =>
    new Limiter({ storeClient, keyPrefix, points: 5, duration: 600, ...more });

  await check("limit", async () => {
    const login = limiter("login");
    await limit(login, () => Promise.allSettled(range(20).map(() => login.consume("ann"))));
  });
  await check("limit without a script", async () => {
    const plain = limiter("plain", {}, RateLimiterRedisNonAtomic);
    await limit(plain, () => oneByOne(range(20).map(() => () => plain.consume("ann"))));
  });
  await check("points", async () => {
    const mails = limiter("mails");
    assert.equal((await mails.penalty("ann", 3)).consumedPoints, 3);
    assert.equal((await mails.reward("ann", 1)).consumedPoints, 2);
    assert.equal((await mails.get("ann")).remainingPoints, 3);
    assert.equal((await mails.set("ann", 5, 600)).consumedPoints, 5);
    await assert.rejects(mails.consume("ann"), refusal);
    assert.ok(await mails.delete("ann"));
    assert.equal(await mails.get("ann"), null);
  });
  await check("block", async () => {
    const calls = limiter("calls", { blockDuration: 900 });
    await calls.block("ann", 900);
    await assert.rejects(calls.consume("ann"), (refused) => refused.msBeforeNext > 600_000);
    const strict = limiter("strict", { points: 1, duration: 60, blockDuration: 900 });
    await strict.consume("ann");
    await assert.rejects(strict.consume("ann"), (refused) => refused.msBeforeNext > 600_000);
  });
  await check("end of a time", async () => {
    const short = limiter("short", { points: 1, duration: 1 });
    await short.consume("ann");
    const refused = await short.consume("ann").then(() => assert.fail("not refused"), (refused) => refused);
    await new Promise((resolve) => setTimeout(resolve, refused.msBeforeNext + 50));
    await short.consume("ann");
  });
  await check("burst", async () => {
    const bursty = new BurstyRateLimiter(limiter("steady", { points: 2 }), limiter("burst", { points: 3 }));
    const results = await Promise.allSettled(range(7).map(() => bursty.consume("ann")));
    assert.equal(results.filter(({ status }) => status === "fulfilled").length, 5);
  });
  await check("union", async () => {
    const both = new RateLimiterUnion(limiter("a-minute", { points: 2 }), limiter("an-hour", { points: 9 }));
    await both.consume("ann");
    await both.consume("ann");
    await assert.rejects(both.consume("ann"), (refused) => refused["a-minute"].remainingPoints === 0);
  });
  await check("queue", async () => {
    const queue = new RateLimiterQueue(limiter("queue", { points: 2, duration: 1 }));
    const begin = Date.now();
    await Promise.all(range(5).map(() => queue.removeTokens(1)));
    assert.ok(Date.now() - begin >= 1_000, "five passed where two may in a second");
  });
  await storeClient.quit();
}

async function limit(limiter, consumeAll) {
  const results = await consumeAll();
  assert.equal(results.filter(({ status }) => status === "fulfilled").length, 5);
  await assert.rejects(limiter.consume("ann"), refusal);
  await limiter.consume("bob");
}

async function oneByOne(actions) {
  const results = [];
  for (const action of actions) results.push(...(await Promise.allSettled([action()])));
  return results;
}

function refusal(refused) {
  return refused.remainingPoints === 0 && refused.msBeforeNext > 0;
}
