// node-redlock 3 and 4: Redlock on the client's side, with one server. 4 sends scripts for many keys, by EVALSHA.

import assert from "node:assert/strict";
import { LONGER_MS, LONG_MS, PATIENCE_MS, RETRY_DELAY_MS, load, newName } from "../helpers.mjs";
import { newClient } from "./ioredis.mjs";

export function connect(server, packageName, driverName) {
  const Redlock = load(packageName);
  const client = driverName === "redis3" ? load(driverName).createClient(server) : newClient(server, driverName);
  const manager = (retryCount) => {
    const redlock = new Redlock([client], { retryCount, retryDelay: RETRY_DELAY_MS, retryJitter: 0 });
    // The library treats an error reply as a refusal. Printing it helps if a check fails.
    return redlock.on("clientError", console.error);
  };
  const managers = { once: manager(0), patient: manager(PATIENCE_MS / RETRY_DELAY_MS) };
  return {
    managers,
    lock: (name, ttl) => new CallbackLock(Redlock, managers, name, ttl),
    pttl: (key) => new Promise((resolve, reject) => client.pttl(key, (error, ms) => (error ? reject(error) : resolve(ms)))),
    // 3 takes one key at a time.
    more: packageName === "redlock" ? {} : { multi },
  };
}

class CallbackLock {
  constructor(Redlock, managers, name, ttl) {
    Object.assign(this, { Redlock, managers, name, ttl });
  }

  async acquire() {
    try {
      this.held = await this.managers.once.lock(this.name, this.ttl);
      return true;
    } catch (error) {
      assert.equal(error.name, "LockError");
      return false;
    }
  }

  async wait() {
    this.held = await this.managers.patient.lock(this.name, this.ttl);
  }

  async extend() {
    this.held = await this.held.extend(LONGER_MS);
  }

  release() {
    return this.unlock(this.held);
  }

  releaseAsStranger() {
    return this.unlock(new this.Redlock.Lock(this.managers.once, this.name, "stolen", Date.now() + LONG_MS));
  }

  // 3 also succeeds if there was nothing to release.
  async unlock(lock) {
    try {
      await lock.unlock();
      return undefined;
    } catch (error) {
      assert.equal(error.name, "LockError");
      return false;
    }
  }
}

// Many keys are taken all or none.
async function multi({ managers: { once } }) {
  const [first, second, third] = [newName(), newName(), newName()];
  const lock = await once.lock([first, second], LONG_MS);
  await assert.rejects(once.lock([third, second], LONG_MS), { name: "LockError" });
  await (await once.lock(third, LONG_MS)).unlock();
  await (await lock.extend(LONGER_MS)).unlock();
  await (await once.lock([third, second, first], LONG_MS)).unlock();
}
