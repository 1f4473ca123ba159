#include "checks.hpp"

#include "redis.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <thread>

using namespace std::chrono_literals;

namespace {

bool is_refused(const Client &client, const std::string &key) {
    return !client.lock(key)->acquire(LONG_MS);
}

void acquire(Lock &holder, const std::string &key) {
    expect(holder.acquire(LONG_MS), "a free lock is refused");
    expect(pttl(key) > 0, "the lock has no TTL");
}

void extend(Lock &holder, const std::string &key) {
    expect(holder.extend(LONGER_MS), "the holder may not extend");
    expect(pttl(key) > LONG_MS, "the TTL has not grown");
}

// The stranger held the lock once, lost it, and does not know.
void stranger(const Client &client) {
    const auto key = new_key();
    const auto stranger = client.lock(key), holder = client.lock(key);
    expect(stranger->acquire(LONG_MS), "a free lock is refused");
    Redis().command({"DEL", key});
    expect(holder->acquire(LONG_MS), "a lost lock is not free");
    expect(!stranger->extend(LONGER_MS), "a stranger may extend");
    expect(pttl(key) < LONGER_MS - 30'000, "a stranger has extended");
    expect(!stranger->release(), "a stranger may release");
    expect(is_refused(client, key), "a stranger has released");
    expect(holder->release(), "the holder may not release");
}

void release(const Client &client, Lock &holder, const std::string &key) {
    expect(holder.release(), "the holder may not release");
    const auto next = client.lock(key);
    expect(next->acquire(LONG_MS), "a released lock is refused");
    expect(next->release(), "the next holder may not release");
}

void expire(const Client &client) {
    const auto key = new_key();
    const auto sleeper = client.lock(key), next = client.lock(key);
    expect(sleeper->acquire(SHORT_MS), "a free lock is refused");
    eventually([&] { return next->acquire(LONG_MS); }, PATIENCE, "the lock does not run out");
    expect(!sleeper->release(), "a lock that ran out was still there");
    expect(next->release(), "the next holder has lost the lock");
}

// All of these libraries wait by retrying.
void wait(const Client &client) {
    const auto key = new_key();
    const auto holder = client.lock(key);
    expect(holder->acquire(LONG_MS), "a free lock is refused");
    auto waiter = std::async(std::launch::async, [&] {
        const auto lock = client.lock(key);
        eventually([&] { return lock->acquire(LONG_MS); }, PATIENCE, "the waiter never gets the lock");
    });
    expect(waiter.wait_for(300ms) == std::future_status::timeout, "the waiter is let in");
    expect(holder->release(), "the holder may not release");
    waiter.get();
}

// Lets the harness break a server in the middle of the checks.
void middle() {
    const char *file = std::getenv("REDLOCK_MIDDLE");
    if (!file) return;
    std::ofstream{file};
    const std::string done = std::string(file) + ".done";
    eventually([&] { return std::filesystem::exists(done); }, 30s, "nobody made " + done);
}

void check(const Client &client, const std::string &name, const std::function<void()> &action) {
    try {
        action();
    } catch (const std::exception &error) {
        throw std::runtime_error(client.name + ": " + name + ": " + error.what());
    }
    std::cout << name << "\tpassed" << std::endl;
}

}  // namespace

// The lock that `acquire` takes is held until `release`, with the harness's turn in between.
void check_client(const Client &client) {
    const auto key = new_key();
    const auto holder = client.lock(key);
    check(client, "acquire", [&] { acquire(*holder, key); });
    middle();
    check(client, "refuse", [&] { expect(is_refused(client, key), "a second holder is let in"); });
    check(client, "extend", [&] { extend(*holder, key); });
    check(client, "stranger", [&] { stranger(client); });
    check(client, "release", [&] { release(client, *holder, key); });
    check(client, "expire", [&] { expire(client); });
    check(client, "wait", [&] { wait(client); });
    for (const auto &[name, more] : client.more) check(client, name, more);
    std::cout << "all locks held" << std::endl;
}

void expect(bool condition, const std::string &complaint) {
    if (!condition) throw std::runtime_error(complaint);
}

void eventually(const std::function<bool()> &condition, std::chrono::seconds patience, const std::string &complaint) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        expect(std::chrono::steady_clock::now() < limit, complaint);
        std::this_thread::sleep_for(10ms);
    }
}

std::string new_key() {
    return "lock " + random_hex();
}

long long pttl(const std::string &key) {
    return Redis().command({"PTTL", key}).integer;
}
