// Takes locks with ioredis: `SET NX PX`, and scripts as commands of one's own (EVALSHA, then EVAL). README.md describes
// the lines that it exchanges with the journal.

import { createRequire } from "node:module";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

// The packages are not beside this file but where `tests/clients/node/run` has installed them.
const { Redis } = createRequire(join(process.env.NODE_PACKAGES, "package.json"))("ioredis");

const RELEASE = `if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;
const EXTEND = `if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
else
  return 0
end`;

const clients = new Map();

async function main() {
  const journal = openJournal();
  journal.tell("hello");
  for (;;) {
    const [order, ...words] = await journal.ask("turn");
    if (order === "end") return;
    if (order === "rest") await sleep(Number(words[0]));
    else if (order === "free") await free(journal, words);
    else await obey(journal, words);
  }
}

async function obey(journal, [server, key, token, ...numbers]) {
  const [px, hold, extend, release, patience] = numbers.map(Number);
  const client = clientOf(server, patience);
  const call = (operation, meaning, action) => timed(journal, server, client, operation, px, meaning, action);
  const claimed = await call("claim", { OK: "yes", null: "no" }, () => client.set(key, token, "PX", px, "NX"));
  if (claimed !== "yes") return;
  await journal.ask("enter");
  await sleep(hold);
  if (extend && (await call("extend", YES_OR_NO, () => client.prolong(key, token, px))) === "yes") await sleep(hold);
  await journal.ask("leave");
  if (release) await call("release", YES_OR_NO, () => client.release(key, token));
}

async function free(journal, [server, key, token, patience]) {
  const client = clientOf(server, Number(patience));
  await timed(journal, server, client, "release", 0, YES_OR_NO, () => client.release(key, token));
}

async function timed(journal, server, client, operation, px, meaning, action) {
  journal.tell(`ask ${process.hrtime.bigint()} ${operation} ${px}`);
  const [kind, text] = await answer(meaning, action);
  journal.tell(`answer ${process.hrtime.bigint()} ${kind} ${text.replace(/\s+/g, " ")}`);
  if (kind === "lost") {
    clients.delete(server);
    client.disconnect();
  }
  return kind;
}

async function answer(meaning, action) {
  try {
    const reply = await action();
    return [meaning[String(reply)] ?? "odd", String(reply)];
  } catch (error) {
    return [error.name === "ReplyError" ? "error" : "lost", String(error.message)];
  }
}

function clientOf(server, patience) {
  if (!clients.has(server)) {
    const [host, port] = server.split(":");
    // Nothing is tried twice: what a lost request has done is not known.
    const client = new Redis({
      host,
      port: Number(port),
      connectTimeout: patience,
      commandTimeout: patience,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      retryStrategy: () => null,
    });
    client.on("error", () => {});
    client.defineCommand("release", { numberOfKeys: 1, lua: RELEASE });
    client.defineCommand("prolong", { numberOfKeys: 1, lua: EXTEND });
    clients.set(server, client);
  }
  return clients.get(server);
}

function openJournal() {
  const [host, port] = process.env.CHAOS_JOURNAL.split(":");
  const socket = connect({ host, port: Number(port), noDelay: true });
  const waiting = [];
  createInterface({ input: socket }).on("line", (line) => waiting.shift()(line.split(" ")));
  // The journal is gone when the tests are.
  socket.on("error", () => process.exit(1));
  socket.on("close", () => process.exit(0));
  const tell = (line) => socket.write(`${line}\n`);
  const ask = (line) => new Promise((resolve) => waiting.push(resolve) && tell(line));
  return { tell, ask };
}

const YES_OR_NO = { 1: "yes", 0: "no" };

await main();
process.exit(0);
