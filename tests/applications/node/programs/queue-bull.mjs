// Bull 4: a queue with two workers, its events over pub/sub, and a rate limit.

import assert from "node:assert/strict";
import { SERVER, check, eventually, load, next, range } from "../helpers.mjs";

const Queue = load("bull");

export async function run() {
  const queue = new Queue("mails", { redis: SERVER });
  const other = new Queue("mails", { redis: SERVER });
  await Promise.all([queue.isReady(), other.isReady()]);
  for (const each of [queue, other]) {
    each.process("add", 2, async ({ data }) => data.a + data.b);
    each.process("third", async (job) => third(job));
  }

  await check("results", async () => {
    assert.equal(await (await queue.add("add", { a: 2, b: 3 })).finished(), 5);
    const jobs = await queue.addBulk(range(8).map((i) => ({ name: "add", data: { a: i, b: i } })));
    assert.deepEqual(await Promise.all(jobs.map((job) => job.finished())), range(8).map((i) => 2 * i));
  });
  await check("retry", async () => {
    assert.equal(await (await queue.add("third", {}, { attempts: 3, backoff: 50 })).finished(), 3);
    await assert.rejects((await queue.add("third", {}, { attempts: 1 })).finished(), /not yet/);
  });
  await check("later", async () => {
    assert.equal(await (await queue.add("add", { a: 3, b: 4 }, { delay: 300 })).finished(), 7);
  });
  await check("events of all workers", async () => {
    const heard = next(queue, "global:completed");
    const job = await other.add("add", { a: 1, b: 1 });
    assert.equal(await heard, job.id);
  });
  await check("pause", async () => {
    await queue.pause();
    assert.ok(await other.isPaused());
    const job = await queue.add("add", { a: 5, b: 6 });
    assert.equal(await job.getState(), "paused");
    await queue.resume();
    assert.equal(await job.finished(), 11);
  });
  await check("repeated", async () => {
    const before = await queue.getCompletedCount();
    await queue.add("add", { a: 0, b: 0 }, { repeat: { every: 200 } });
    await eventually(async () => (await queue.getCompletedCount()) >= before + 3, "a job was repeated three times");
    await queue.removeRepeatable("add", { every: 200 });
  });
  await check("lock of a job", async () => {
    const slow = new Queue("slow", { redis: SERVER });
    const job = await slow.add({});
    const taken = await slow.getNextJob();
    assert.equal(taken.id, job.id);
    await assert.rejects(job.remove(), /Could not remove/);
    await taken.moveToCompleted("done", true);
    await slow.close();
  });
  await check("rate limit", limited);
  await Promise.all([queue.close(), other.close()]);
}

function third(job) {
  if (job.attemptsMade < 2) throw new Error("not yet");
  return job.attemptsMade + 1;
}

async function limited() {
  const limiter = { max: 5, duration: 500 };
  const queue = new Queue("calls", { redis: SERVER, limiter });
  const started = [];
  queue.process(async () => started.push(Date.now()));
  await queue.addBulk(range(12).map((i) => ({ data: { i } })));
  await eventually(() => started.length === 12, "all calls were made");
  assert.ok(started[11] - started[0] >= limiter.duration, "12 calls were made where 5 are allowed");
  await queue.close();
}
