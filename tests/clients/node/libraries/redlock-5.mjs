// node-redlock 5: Redlock on the client's side, with one server; scripts for many keys, by EVALSHA.

import assert from "node:assert/strict";
import { LONGER_MS, LONG_MS, PATIENCE_MS, RETRY_DELAY_MS, load, newName, sleep } from "../helpers.mjs";
import { newClient } from "./ioredis.mjs";

export function connect(server, packageName, driverName) {
  const { default: Redlock, Lock, ResourceLockedError } = load(packageName);
  const client = newClient(server, driverName);
  const redlock = new Redlock([client], { retryCount: 0, retryDelay: RETRY_DELAY_MS, retryJitter: 0 });
  // The library treats an error reply as a refusal. Printing it helps if a check fails.
  redlock.on("error", (error) => error instanceof ResourceLockedError || console.error(error));
  return {
    redlock,
    lock: (name, ttl) => new Redlock5Lock(redlock, Lock, name, ttl),
    pttl: (key) => client.pttl(key),
    more: { multi, watchdog },
  };
}

class Redlock5Lock {
  constructor(redlock, Lock, name, ttl) {
    Object.assign(this, { redlock, Lock, name, ttl });
  }

  acquire() {
    return told(async () => {
      this.held = await this.redlock.acquire([this.name], this.ttl);
    });
  }

  async wait() {
    this.held = await this.redlock.acquire([this.name], this.ttl, { retryCount: PATIENCE_MS / RETRY_DELAY_MS });
  }

  async extend() {
    this.held = await this.held.extend(LONGER_MS);
  }

  release() {
    return told(() => this.held.release());
  }

  releaseAsStranger() {
    return told(() => new this.Lock(this.redlock, [this.name], "stolen", [], Date.now() + LONG_MS).release());
  }
}

async function told(action) {
  try {
    await action();
    return true;
  } catch (error) {
    assert.equal(error.name, "ExecutionError");
    return false;
  }
}

// Many keys are taken all or none.
async function multi({ redlock }) {
  const [first, second, third] = [newName(), newName(), newName()];
  const lock = await redlock.acquire([first, second], LONG_MS);
  await assert.rejects(redlock.acquire([third, second], LONG_MS), { name: "ExecutionError" });
  await (await redlock.acquire([third], LONG_MS)).release();
  await (await lock.extend(LONGER_MS)).release();
  await (await redlock.acquire([third, second, first], LONG_MS)).release();
}

// `using` extends the lock for as long as the routine runs.
async function watchdog({ redlock }) {
  const name = newName();
  await redlock.using([name], 1_500, { automaticExtensionThreshold: 750 }, async (signal) => {
    await sleep(3_000);
    assert.ok(!signal.aborted, `the lock was lost: ${signal.error}`);
    await assert.rejects(redlock.acquire([name], LONG_MS), { name: "ExecutionError" });
  });
  await (await redlock.acquire([name], LONG_MS)).release();
}
