// bee-queue: jobs with retries and progress, a delayed one, and jobs left behind by a dead worker.

import assert from "node:assert/strict";
import { SERVER, check, eventually, load, next, range } from "../helpers.mjs";

const Queue = load("bee-queue");

export async function run() {
  const settings = { redis: SERVER, activateDelayedJobs: true, stallInterval: 1_000 };
  const producer = new Queue("mails", { ...settings, isWorker: false });
  const worker = new Queue("mails", { ...settings, getEvents: false, sendEvents: true });
  await Promise.all([producer.ready(), worker.ready()]);
  const tries = new Map();
  worker.process(3, async (job) => work(job, tries));

  await check("results", async () => {
    assert.equal(await succeeded(await producer.createJob({ a: 2, b: 3 })), 5);
    const jobs = range(30).map((i) => producer.createJob({ a: i, b: i }));
    const results = jobs.map((job) => next(job, "succeeded"));
    assert.equal((await producer.saveAll(jobs)).size, 0);
    assert.deepEqual(await Promise.all(results), range(30).map((i) => 2 * i));
  });
  await check("retry", async () => {
    assert.equal(await succeeded(producer.createJob({ third: true }).retries(2).backoff("fixed", 50)), 3);
    const hopeless = producer.createJob({ hopeless: true });
    const failed = next(hopeless, "failed");
    await hopeless.save();
    assert.match((await failed).message, /no such customer/);
  });
  await check("later", async () => {
    assert.equal(await succeeded(producer.createJob({ a: 3, b: 4 }).delayUntil(Date.now() + 500)), 7);
  });
  await check("progress", async () => {
    const job = producer.createJob({ progress: true });
    const progress = next(job, "progress");
    await job.save();
    assert.deepEqual(await progress, { percent: 50 });
  });
  await check("health", async () => {
    await eventually(async () => (await producer.checkHealth()).active === 0, "nothing is active");
    const { failed, waiting, newestJob } = await producer.checkHealth();
    assert.deepEqual({ failed, waiting, newestJob }, { failed: 1, waiting: 0, newestJob: 35 });
  });
  await check("stalled", async () => {
    assert.deepEqual(await worker.checkStalledJobs(), 0);
  });
  await Promise.all([producer.close(), worker.close()]);
}

async function succeeded(job) {
  const result = next(job, "succeeded");
  await job.save();
  return result;
}

async function work(job, tries) {
  if (job.data.hopeless) throw new Error("no such customer");
  if (job.data.progress) return job.reportProgress({ percent: 50 });
  if (!job.data.third) return job.data.a + job.data.b;
  tries.set(job.id, (tries.get(job.id) ?? 0) + 1);
  if (tries.get(job.id) < 3) throw new Error("not yet");
  return 3;
}
