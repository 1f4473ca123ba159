// The commands that RedisInsight sends, over the client that it uses: on connecting, and when its
// pages are opened one after the other. RedisInsight itself cannot run here. The commands are those
// of its `api/src/modules`, with the arguments written there.

import assert from "node:assert/strict";
import { SERVER, check, eventually, has, load } from "../helpers.mjs";

const { Redis } = load("ioredis");

// Commands that reveal which modules are loaded, where MODULE LIST is forbidden.
const COMMANDS_OF_MODULES = { search: ["ft.info"], ReJSON: ["json.get"], timeseries: ["ts.mrange", "ts.info"], bf: ["bf.info"] };
const FIELDS_OF_CLIENTS = ["id", "addr", "name", "age", "idle", "flags", "db", "cmd", "user", "resp"];

export async function run() {
  const client = await connect("redisinsight-common-1a2b3c4d");
  await fill(client);
  await check("connect", () => whatIsThere(client));
  await check("overview", () => overview(client));
  await has("keys in the overview", async () => (await info(client)).keyspace?.db0?.startsWith("keys="));
  await has("network in the overview", async () => Number((await info(client)).stats.instantaneous_input_kbps) >= 0);
  await has("hit ratio", async () => Number((await info(client)).stats.keyspace_hits) >= 0);
  await check("browser", () => browse(client));
  await check("values", () => lookAtValues(client));
  await check("analysis", () => analyse(client));
  await check("slow log", () => lookAtSlowLog(client));
  await check("pub/sub", () => talk(client));
  await check("profiler", () => profile(client));
  await check("workbench", () => work());
  await check("lock", () => lookAtALock(client));
  client.disconnect();
}

function connect(connectionName, more = {}) {
  const options = { ...SERVER, connectionName, db: 0, family: 0, enableReadyCheck: true, maxRetriesPerRequest: 1, retryStrategy: () => undefined };
  const client = new Redis({ ...options, ...more });
  return new Promise((resolve, reject) => client.on("ready", () => resolve(client)).on("error", reject));
}

// Creates one key of each type, and some more.
async function fill(client) {
  await client.mset(Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`page:${i}`, `text ${i}`])));
  await client.hset("product", { name: "pen", price: "3" });
  await client.rpush("tasks", "write", "read");
  await client.sadd("tags", "blue", "new");
  await client.zadd("scores", 3, "ann", 5, "bob");
  await client.xadd("events", "1-1", "what", "begun");
  await client.expire("product", 600);
}

async function whatIsThere(client) {
  assert.deepEqual(await client.call("module", "list"), []);
  const { server, replication } = await info(client);
  assert.match(server.redis_version, /^\d+\.\d+\.\d+$/);
  assert.equal(server.redis_mode, "standalone");
  assert.equal(replication.role, "master");
  assert.deepEqual(await client.call("config", "get", "databases"), ["databases", "16"]);
  const own = clients(await client.call("client", "list")).find(({ name }) => name === "redisinsight-common-1a2b3c4d");
  assert.ok(own, "the list of clients has no such name");
  FIELDS_OF_CLIENTS.forEach((field) => assert.ok(field in own, `the list of clients has no ${field}`));
  for (const commands of Object.values(COMMANDS_OF_MODULES)) {
    assert.deepEqual(await client.call("command", "info", ...commands), commands.map(() => null));
  }
  // Sent where INFO is forbidden.
  assert.equal((await client.call("hello"))[0], "server");
  // Neither a cluster nor a sentinel.
  await assert.rejects(client.call("cluster", "info"), /cluster support disabled/);
  await assert.rejects(client.call("sentinel", "masters"), /unknown command/);
}

async function overview(client) {
  const { memory, clients: counts, stats, cpu, server } = await info(client);
  const numbers = { ...memory, ...counts, ...stats, ...cpu, ...server };
  for (const field of ["used_memory", "connected_clients", "instantaneous_ops_per_sec", "used_cpu_sys", "used_cpu_user", "uptime_in_seconds"]) {
    assert.ok(Number(numbers[field]) >= 0, `${field} is ${numbers[field]}`);
  }
  assert.equal(memory.maxmemory_policy, "noeviction");
}

// The list of keys, with type, time and size of each: in batches, by type, and by full name.
async function browse(client) {
  assert.equal(await client.call("dbsize"), 605);
  const all = await scan(client, "MATCH", "*", "COUNT", "500");
  assert.equal(new Set(all).size, 605);
  for (const [key, type] of [["product", "hash"], ["events", "stream"]]) {
    assert.deepEqual(await scan(client, "MATCH", "*", "COUNT", "500", "TYPE", type), [key]);
  }
  const details = await detailsOf(client, ["product", "tasks", "nothing"]);
  assert.deepEqual(details.map(({ type }) => type), ["hash", "list", "none"]);
  assert.deepEqual(details.map(({ ttl }) => ttl > 0 ? "some" : ttl), ["some", -1, -2]);
  assert.ok(details[0].size > 0 && details[2].size === null, "the sizes are wrong");
}

async function lookAtValues(client) {
  const replies = await piped(client, [
    ["strlen", "page:7"], ["getrange", "page:7", "0", "4999"],
    ["hlen", "product"], ["hscan", "product", "0", "MATCH", "*", "COUNT", "15"],
    ["llen", "tasks"], ["lrange", "tasks", "0", "14"],
    ["scard", "tags"], ["sscan", "tags", "0", "MATCH", "*", "COUNT", "15"],
    ["zcard", "scores"], ["zrange", "scores", "0", "14", "WITHSCORES"],
    ["xlen", "events"], ["xinfo", "stream", "events"], ["xrevrange", "events", "+", "-", "COUNT", "500"],
    ["xinfo", "groups", "events"],
  ]);
  replies[7][1].sort();
  replies[11] = replies[11].slice(0, 2);
  assert.deepEqual(replies, [
    6, "text 7", 2, ["0", ["name", "pen", "price", "3"]], 2, ["write", "read"], 2, ["0", ["blue", "new"]],
    2, ["ann", "3", "bob", "5"], 1, ["length", 1], [["1-1", ["what", "begun"]]], [],
  ]);
  assert.match(await client.call("object", "encoding", "tasks"), /list/);
  await assert.rejects(client.call("JSON.GET", "product"), /unknown command/);
  // Edits.
  assert.deepEqual(await piped(client, [["renamenx", "tasks", "jobs"], ["expire", "jobs", "900"], ["persist", "jobs"], ["unlink", "jobs"]]), [1, 1, 1, 1]);
}

async function analyse(client) {
  const keys = await scan(client, "COUNT", "10000");
  const sizes = await piped(client, keys.map((key) => ["memory", "usage", key, "samples", "0"]));
  assert.equal(sizes.length, 604);
  assert.ok(sizes.every((size) => size > 0), "a key has no size");
}

async function lookAtSlowLog(client) {
  const before = Object.fromEntries(chunks(await client.call("config", "get", "slowlog*")));
  assert.deepEqual(Object.keys(before).sort(), ["slowlog-log-slower-than", "slowlog-max-len"]);
  assert.equal(await client.call("config", "set", "slowlog-log-slower-than", "0"), "OK");
  await client.get("lock:slow");
  const [id, time, duration, words, source, name] = await slowGet(client, "lock:slow");
  assert.ok([id, time, duration].every(Number.isInteger), `not numbers: ${id}, ${time}, ${duration}`);
  assert.deepEqual([words.length, name], [2, "redisinsight-common-1a2b3c4d"]);
  assert.match(source, /^127\.0\.0\.1:\d+$/);
  await has("slow requests for data", async () => (await client.get("page:1")) && slowGet(client, "page:1"));
  assert.equal(await client.call("config", "set", "slowlog-log-slower-than", before["slowlog-log-slower-than"]), "OK");
  assert.equal(await client.call("slowlog", "reset"), "OK");
  assert.deepEqual(await client.call("slowlog", "get", "50"), []);
}

async function slowGet(client, key) {
  const entries = await client.call("slowlog", "get", "50");
  return entries.find(([, , , words]) => words.join(" ").toLowerCase() === `get ${key}`);
}

async function talk(client) {
  const listener = await connect("redisinsight-pubsub-1a2b3c4d");
  const heard = [];
  listener.on("pmessage", (pattern, channel, message) => heard.push([pattern, channel, message]));
  await listener.psubscribe("*");
  assert.equal(await client.publish("news", "extra"), 1);
  await eventually(() => heard.length > 0, "the message is heard");
  assert.deepEqual(heard, [["*", "news", "extra"]]);
  await listener.punsubscribe("*");
  listener.disconnect();
}

async function profile(client) {
  const monitor = await watch();
  const seen = [];
  monitor.on("monitor", (time, words) => seen.push(words.join(" ")));
  await eventually(async () => (await client.get("page:2")) && seen.includes("get page:2"), "the command is seen");
  monitor.disconnect();
}

// ioredis fails if a line arrives together with the confirmation, which also happens with a busy
// Redis. Then it starts over.
async function watch() {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await (await connect("redisinsight-monitor-1a2b3c4d")).monitor();
    } catch (error) {
      if (attempt === 10 || !error.message.includes("Command queue state error")) throw error;
    }
  }
}

// Commands that people type into it, in another database, and the commands of a batch of lines.
async function work() {
  const client = await connect("redisinsight-cli-1a2b3c4d", { db: 2 });
  assert.deepEqual(await piped(client, [["call", "SET", "note", "1"], ["call", "INCR", "note"]]), ["OK", 2]);
  assert.equal(await client.call("select", "0"), "OK");
  assert.equal(await client.call("exists", "note"), 0);
  assert.ok((await client.call("command")).length > 150, "commands are missing");
  assert.ok((await client.call("command", "count")) > 150, "commands are not counted");
  await assert.rejects(client.call("nosuch", "command"), /unknown command/);
  await client.quit();
}

// The name of a lock can be typed into the browser. Held at the end.
async function lookAtALock(client) {
  assert.equal(await client.set("lock:night", "ann", "EX", 600, "NX"), "OK");
  const [{ type, ttl }] = await detailsOf(client, ["lock:night"]);
  assert.equal(type, "string");
  assert.ok(0 < ttl && ttl <= 600, `the lock ends in ${ttl} s`);
  assert.deepEqual(await piped(client, [["strlen", "lock:night"], ["getrange", "lock:night", "0", "4999"]]), [3, "ann"]);
}

// Sent for each key of a page. A failure is shown as unknown.
async function detailsOf(client, keys) {
  const ask = async (command) => {
    const replies = await client.pipeline(keys.map(command)).exec();
    return replies.map(([error, reply]) => (error ? null : reply));
  };
  const sizes = await ask((key) => ["memory", "usage", key, "samples", "0"]);
  const types = await ask((key) => ["type", key]);
  const ttls = await ask((key) => ["ttl", key]);
  return keys.map((_, i) => ({ type: types[i], ttl: ttls[i], size: sizes[i] }));
}

async function scan(client, ...words) {
  const keys = [];
  let cursor = "0";
  do {
    const [next, some] = await client.call("scan", cursor, ...words);
    keys.push(...some);
    cursor = next;
  } while (cursor !== "0");
  return [...new Set(keys)];
}

async function piped(client, commands) {
  return (await client.pipeline(commands).exec()).map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
}

// Returns INFO, by section and field.
async function info(client) {
  const sections = (await client.call("info")).split(/^# /m).slice(1);
  return Object.fromEntries(sections.map((section) => {
    const [title, ...lines] = section.trim().split(/\r?\n/);
    return [title.toLowerCase(), Object.fromEntries(lines.map((line) => line.split(/:(.*)/)))];
  }));
}

function clients(list) {
  return list.trim().split(/\r?\n/).map((line) => Object.fromEntries(line.split(" ").map((field) => field.split(/=(.*)/))));
}

function chunks(words) {
  return words.flatMap((word, i) => (i % 2 === 0 ? [[word, words[i + 1]]] : []));
}
