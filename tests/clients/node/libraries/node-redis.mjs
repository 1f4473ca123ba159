// node-redis from 4 on: SET NX PX, and scripts by EVAL.

import assert from "node:assert/strict";
import { EXTEND, RELEASE, load, newName } from "../helpers.mjs";
import { PlainLock } from "./plain.mjs";

export async function connect({ host, port }, packageName, protocol) {
  const { createClient } = load(packageName);
  const client = createClient({ socket: { host, port }, ...(protocol && { RESP: Number(protocol) }) });
  await client.connect();
  const evaluate = (script, key, ...args) => client.eval(script, { keys: [key], arguments: args.map(String) });
  const driver = {
    claim: (name, token, ttl) => client.set(name, token, { NX: true, PX: ttl }),
    prolong: (name, token, ttl) => evaluate(EXTEND, name, token, ttl),
    release: (name, token) => evaluate(RELEASE, name, token),
  };
  return {
    client,
    lock: (name, ttl) => new PlainLock(driver, name, ttl),
    pttl: (key) => client.pTTL(key),
    more: { timestamps, pipeline },
  };
}

async function timestamps({ client }) {
  const key = newName();
  assert.equal(Number(await client.setNX(key, "1000")), 1);
  assert.equal(Number(await client.setNX(key, "1001")), 0);
  assert.equal(await client.getSet(key, "2000"), "1000");
  assert.equal(await client.del(key), 1);
}

// Requests from one turn of the event loop are sent together.
async function pipeline({ client }) {
  const key = newName();
  await client.set(key, "mine", { NX: true, PX: 60_000 });
  const replies = await Promise.all([client.get(key), client.del(key), client.exists(key)]);
  assert.deepEqual(replies, ["mine", 1, 0]);
}
