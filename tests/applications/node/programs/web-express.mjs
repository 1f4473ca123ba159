// Express with express-session, whose sessions connect-redis keeps, and a node-redis lock that
// decides who makes a report.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { URL_OF_SERVER, check, eventually, load, range, sleep } from "../helpers.mjs";

const express = load("express");
const session = load("express-session");
const { RedisStore } = load("connect-redis");
const { createClient } = load("redis");

const RELEASE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

export async function run() {
  const client = await createClient({ url: URL_OF_SERVER }).connect();
  const store = new RedisStore({ client, ttl: 600 });
  const server = shop(client, store).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}`;

  await check("sessions", async () => {
    const [ann, bob] = [new Browser(url), new Browser(url)];
    assert.deepEqual([await ann.get("/visit"), await ann.get("/visit"), await ann.get("/visit")], ["1", "2", "3"]);
    assert.equal(await bob.get("/visit"), "1");
    assert.equal(await ann.get("/leave"), "bye");
    assert.equal(await ann.get("/visit"), "1");
  });
  await check("store", async () => {
    await Promise.all(range(300).map(() => new Browser(url).get("/visit")));
    assert.equal(await store.length(), 302);
    const [id] = await store.ids();
    assert.ok((await client.ttl(`sess:${id}`)) > 0);
    assert.equal((await store.all()).length, 302);
    await store.clear();
    assert.equal(await store.length(), 0);
  });
  await check("lock", async () => {
    const reports = await Promise.all(range(8).map(() => new Browser(url).get("/report")));
    assert.deepEqual(new Set(reports), new Set(["made 1 times"]));
    assert.equal(await client.exists("lock:report"), 0);
  });
  await check("lock held", async () => {
    // Held at the end.
    assert.equal(await client.set("lock:night", "mine", { condition: "NX", expiration: { type: "EX", value: 600 } }), "OK");
    assert.equal(await client.set("lock:night", "theirs", { condition: "NX" }), null);
  });
  server.close();
  await client.close();
}

function shop(client, store) {
  const app = express();
  app.use(session({ store, secret: "of a test", resave: false, saveUninitialized: false }));
  app.get("/visit", (request, response) => {
    request.session.visits = (request.session.visits ?? 0) + 1;
    response.send(String(request.session.visits));
  });
  app.get("/leave", (request, response) => request.session.destroy(() => response.send("bye")));
  app.get("/report", async (_, response) => response.send(await report(client)));
  return app;
}

// The first to get the lock makes the report.
async function report(client) {
  const token = randomUUID();
  const options = { condition: "NX", expiration: { type: "PX", value: 60_000 } };
  await eventually(async () => (await client.set("lock:report", token, options)) === "OK", "the lock is free");
  try {
    if (!(await client.exists("report"))) {
      await sleep(50);
      await client.set("report", `made ${await client.incr("reports")} times`);
    }
    return await client.get("report");
  } finally {
    await client.eval(RELEASE, { keys: ["lock:report"], arguments: [token] });
  }
}

// A browser that keeps one cookie.
class Browser {
  constructor(url) {
    this.url = url;
    this.headers = {};
  }

  async get(path) {
    const response = await fetch(this.url + path, { headers: this.headers });
    const [cookie] = response.headers.getSetCookie();
    if (cookie) this.headers = { cookie: cookie.split(";")[0] };
    return response.text();
  }
}
