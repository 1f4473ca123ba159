// Runs the checks of one client from `clients.tsv`, or only holds or tries locks. Called by `run`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { check } from "./checks.mjs";
import { LONG_MS, load } from "./helpers.mjs";

const HOLD_MS = 120_000;

async function main(action, client, ...keys) {
  const library = await libraryOf(rowOf(client));
  await { check, hold, try: tryToTake }[action](library, keys);
  // Exits without cleaning up: a library that cleaned up would release the locks it holds.
  process.exit(0);
}

async function hold(library, keys) {
  for (const key of keys) {
    assert.ok(await library.lock(key, HOLD_MS).acquire(), `${key} is not free`);
    console.log(`held\t${key}`);
  }
}

async function tryToTake(library, keys) {
  for (const key of keys) {
    const taken = await library.lock(key, LONG_MS).acquire();
    console.log(`${taken ? "taken" : "refused"}\t${key}`);
  }
}

function rowOf(client) {
  const table = readFileSync(new URL("clients.tsv", import.meta.url), "utf8");
  return table.trimEnd().split("\n").map((line) => line.split("\t")).find(([id]) => id === client);
}

async function libraryOf([, , version, , module, packageName, option]) {
  assert.equal(load(`./node_modules/${packageName}/package.json`).version.replace(/^v/, ""), version);
  const [host, port] = process.env.REDLOCK_ADDRESS.split(":");
  const { connect } = await import(`./libraries/${module}.mjs`);
  return connect({ host, port: Number(port) }, packageName, option);
}

await main(...process.argv.slice(2));
