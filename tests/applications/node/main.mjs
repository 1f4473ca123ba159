// Runs the checks of one application from `applications.tsv`. Called by `run`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { load } from "./helpers.mjs";

async function main(application) {
  const [, , versions, , , program] = rowOf(application);
  try {
    versions.split(", ").map((each) => each.split(" ")).forEach(([name, version]) => compareVersion(name, version));
    const { run } = await import(`./programs/${program}.mjs`);
    await run(application);
  } catch (error) {
    console.error(error);
    console.error(`${application}: ${error.message.replace(/\s+/g, " ")}`);
    process.exit(1);
  }
  process.exit(0);
}

function rowOf(application) {
  const table = readFileSync(new URL("applications.tsv", import.meta.url), "utf8");
  const rows = table.trimEnd().split("\n").filter((line) => !line.startsWith("#"));
  return rows.map((line) => line.split("\t")).find(([id]) => id === application);
}

function compareVersion(name, version) {
  const installed = load(`./node_modules/${name}/package.json`).version;
  assert.equal(installed, version, `the table says ${name} ${version}, and ${installed} is installed`);
}

await main(...process.argv.slice(2));
