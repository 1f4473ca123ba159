// The lock of the Redis manual, as applications write it themselves.

import { randomUUID } from "node:crypto";
import { LONGER_MS, eventually } from "../helpers.mjs";

// `claim`, `prolong` and `release` are the three commands in the syntax of one driver.
export class PlainLock {
  #token = randomUUID();

  constructor(driver, name, ttl) {
    Object.assign(this, { driver, name, ttl });
  }

  async acquire() {
    return (await this.driver.claim(this.name, this.#token, this.ttl)) === "OK";
  }

  wait() {
    return eventually(() => this.acquire());
  }

  async extend() {
    if ((await this.driver.prolong(this.name, this.#token, LONGER_MS)) !== 1) throw new Error("not extended");
  }

  async release() {
    return (await this.driver.release(this.name, this.#token)) === 1;
  }

  // A refused token is a stranger's.
  async releaseAsStranger() {
    return this.release();
  }
}
