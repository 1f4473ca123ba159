// BullMQ: queues, workers and their events; flows, repeated jobs, and a rate limit.

import assert from "node:assert/strict";
import { PATIENCE_MS, SERVER, check, eventually, load, range } from "../helpers.mjs";

const { FlowProducer, Queue, QueueEvents, UnrecoverableError, Worker } = load("bullmq");

const LIMIT = { max: 5, duration: 500 };

export async function run() {
  const connection = { ...SERVER, maxRetriesPerRequest: null };
  const queue = new Queue("mails", { connection });
  const events = new QueueEvents("mails", { connection });
  await events.waitUntilReady();
  const done = [];
  events.on("completed", ({ returnvalue }) => done.push(returnvalue));
  const work = new Worker("mails", jobs, { connection, concurrency: 4 });

  await check("results", async () => {
    const job = await queue.add("add", { a: 2, b: 3 });
    assert.equal(await job.waitUntilFinished(events, PATIENCE_MS), 5);
  });
  await check("many", async () => {
    const before = done.length;
    const added = await queue.addBulk(range(200).map((i) => ({ name: "add", data: { a: i, b: i } })));
    await eventually(() => done.length === before + 200, "all events have come");
    const results = await Promise.all(added.map(async ({ id }) => (await queue.getJob(id)).returnvalue));
    assert.deepEqual(results, range(200).map((i) => 2 * i));
  });
  await check("retry", async () => {
    const job = await queue.add("third", {}, { attempts: 3, backoff: { type: "fixed", delay: 50 } });
    assert.equal(await job.waitUntilFinished(events, PATIENCE_MS), 3);
    const hopeless = await queue.add("hopeless", {}, { attempts: 3 });
    await assert.rejects(hopeless.waitUntilFinished(events, PATIENCE_MS), /no such customer/);
    assert.equal(await hopeless.getState(), "failed");
  });
  await check("later", async () => {
    const job = await queue.add("add", { a: 3, b: 4 }, { delay: 500 });
    assert.equal(await job.getState(), "delayed");
    assert.equal(await job.waitUntilFinished(events, PATIENCE_MS), 7);
  });
  await check("progress and logs", async () => {
    const job = await queue.add("progress", {});
    await job.waitUntilFinished(events, PATIENCE_MS);
    assert.equal((await queue.getJob(job.id)).progress, 50);
    assert.deepEqual((await queue.getJobLogs(job.id)).logs, ["half done"]);
  });
  await check("duplicate", async () => {
    await queue.pause();
    const jobs = await Promise.all([1, 2].map(() => queue.add("add", { a: 1, b: 1 }, { jobId: "invoice" })));
    assert.equal(jobs[0].id, jobs[1].id);
    assert.equal(await queue.count(), 1);
    await queue.resume();
    assert.equal(await jobs[0].waitUntilFinished(events, PATIENCE_MS), 2);
  });
  await check("flow", async () => {
    const flows = new FlowProducer({ connection });
    const children = range(3).map((i) => ({ name: "add", queueName: "mails", data: { a: i, b: 1 } }));
    const { job } = await flows.add({ name: "sum", queueName: "mails", children });
    assert.equal(await job.waitUntilFinished(events, PATIENCE_MS), 6);
    await flows.close();
  });
  await check("repeated", async () => {
    const before = done.filter((value) => value === "tick").length;
    await queue.upsertJobScheduler("every-moment", { every: 200 }, { name: "tick" });
    await eventually(() => done.filter((value) => value === "tick").length >= before + 3, "a job was repeated three times");
    assert.ok(await queue.removeJobScheduler("every-moment"));
  });
  await check("rate limit", () => limited(connection));
  await check("obliterate", async () => {
    await work.close();
    await queue.obliterate({ force: true });
    assert.equal(await queue.count(), 0);
  });
  await Promise.all([queue.close(), events.close()]);
}

async function jobs(job) {
  switch (job.name) {
    case "add":
      return job.data.a + job.data.b;
    case "third":
      if (job.attemptsMade < 2) throw new Error("not yet");
      return job.attemptsMade + 1;
    case "hopeless":
      throw new UnrecoverableError("no such customer");
    case "progress":
      await job.updateProgress(50);
      return job.log("half done");
    case "sum":
      return Object.values(await job.getChildrenValues()).reduce((a, b) => a + b);
    default:
      return job.name;
  }
}

// In each period of the rate limit, two workers together take no more jobs than it allows.
async function limited(connection) {
  const queue = new Queue("calls", { connection });
  const started = [];
  const workers = range(2).map(() => new Worker("calls", async () => started.push(Date.now()), { connection, limiter: LIMIT }));
  await queue.addBulk(range(15).map((i) => ({ name: "call", data: { i } })));
  await eventually(() => started.length === 15, "all calls were made");
  started.sort((a, b) => a - b);
  assert.ok(started[14] - started[0] >= LIMIT.duration, "15 calls were made where 5 are allowed");
  await Promise.all([...workers, queue].map((each) => each.close()));
}
