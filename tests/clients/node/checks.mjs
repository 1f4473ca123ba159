// The checks of every lock, in the order of the table.
//
// A library (see libraries/) has `lock(name, ttl)`, `pttl(key)` and `more`, its further checks by name. A lock has
//   acquire()           takes the lock if it is free; returns whether it did
//   wait()              waits until the lock is free, and takes it
//   extend()            extends it, so that more than LONG_MS is left
//   release()           true: released, false: it was not held, undefined: the library does not report it
//   releaseAsStranger() asks the server for a release with a token that is not the holder's

import assert from "node:assert/strict";
import { LONG_MS, eventually, middle, newName, sleep } from "./helpers.mjs";

const SHORT_MS = 1_000;

export async function check(library) {
  const name = newName();
  const [mine, other] = [library.lock(name, LONG_MS), library.lock(name, LONG_MS)];
  await report("acquire", () => acquire(mine));
  await middle();
  await report("refuse", () => refuse(other));
  await report("extend", () => extend(library, name, mine));
  await report("stranger", () => stranger(library, name, other));
  await report("release", () => release(library, name, mine, other));
  for (const [title, rest] of Object.entries({ expire, wait, ...library.more })) await report(title, () => rest(library));
  console.log("all locks held");
}

async function report(title, action) {
  try {
    await action();
  } catch (error) {
    throw new Error(`the check ${title} failed`, { cause: error });
  }
  console.log(`${title}\tpassed`);
}

async function acquire(mine) {
  assert.ok(await mine.acquire(), "a free lock was refused");
}

async function refuse(other) {
  assert.ok(!(await other.acquire()), "two hold one lock");
}

async function extend(library, name, mine) {
  await mine.extend();
  const left = await library.pttl(name);
  assert.ok(left > LONG_MS, `${left} ms left after an extension`);
}

async function stranger(library, name, other) {
  assert.notEqual(await other.releaseAsStranger(), true, "a stranger was told that it had released the lock");
  assert.ok((await library.pttl(name)) > 0, "a stranger released the lock");
  await refuse(other);
}

async function release(library, name, mine, other) {
  assert.notEqual(await mine.release(), false, "the holder was told that it does not hold the lock");
  assert.equal(await library.pttl(name), -2, "the released lock is still there");
  assert.ok(await other.acquire(), "a released lock was refused");
  assert.notEqual(await other.release(), false);
}

async function expire(library) {
  const name = newName();
  const [late, following] = [library.lock(name, SHORT_MS), library.lock(name, LONG_MS)];
  assert.ok(await late.acquire());
  await eventually(() => following.acquire());
  assert.notEqual(await late.release(), true, "the late holder was told that it had released the lock");
  assert.ok((await library.pttl(name)) > 0, "the late holder released somebody else's lock");
  assert.notEqual(await following.release(), false);
}

async function wait(library) {
  const name = newName();
  const [first, second] = [library.lock(name, LONG_MS), library.lock(name, LONG_MS)];
  assert.ok(await first.acquire());
  let waiting = true;
  const waiter = second.wait().finally(() => (waiting = false));
  await sleep(300);
  assert.ok(waiting, "somebody who waits got the lock, or an error, while it was held");
  assert.notEqual(await first.release(), false);
  await waiter;
  assert.notEqual(await second.release(), false);
}
