// sewenew/redis-plus-plus 1.3: RedMutexTx changes a lock in transactions, RedLockMutex in scripts.
// These are the commands that they send, through the driver they use.

#include "checks.hpp"
#include "client.hpp"
#include "redis.hpp"

namespace {

constexpr auto VERSION = "1.3.15";

// WATCH and GET on its own connection, and the change in MULTI only if the lock is the holder's.
class Transaction {
public:
    explicit Transaction(std::string key) : key(std::move(key)) {}

    bool holds(const std::string &value) {
        redis.command({"WATCH", key});
        return redis.command({"GET", key}).text == value;
    }

    // Returns nil if the key has changed since WATCH.
    Reply exec(const std::vector<std::string> &change) {
        redis.command({"MULTI"});
        expect(redis.command(change) == "QUEUED", "MULTI does not queue");
        return redis.command({"EXEC"});
    }

private:
    Redis redis;
    std::string key;
};

class RedMutex : public Lock {
public:
    explicit RedMutex(std::string key) : key(std::move(key)) {}

    // A refused attempt is taken back, as Redlock requires.
    bool acquire(long ttl_ms) override {
        const bool granted = redis.command({"SET", key, value, "PX", std::to_string(ttl_ms), "NX"}) == "OK";
        if (!granted) release();
        return granted;
    }

protected:
    Redis redis;
    std::string key, value = random_hex();
};

class RedMutexTx : public RedMutex {
public:
    using RedMutex::RedMutex;

    bool extend(long ttl_ms) override { return change({"PEXPIRE", key, std::to_string(ttl_ms)}); }

    bool release() override { return change({"DEL", key}); }

private:
    bool change(const std::vector<std::string> &command) {
        Transaction transaction(key);
        if (!transaction.holds(value)) return false;
        const Reply reply = transaction.exec(command);
        return !reply.nil && reply.elements.at(0) == 1;
    }
};

class RedLockMutex : public RedMutex {
public:
    using RedMutex::RedMutex;

    bool extend(long ttl_ms) override {
        return redis.eval(script("redis-plus-plus-extend"), key, {value, std::to_string(ttl_ms)}) == 1;
    }

    bool release() override { return redis.eval(script("redis-plus-plus-unlock"), key, {value}) == 1; }
};

// The lock expires and somebody else takes it just between a holder's GET and its EXEC.
void overtaken() {
    const auto key = new_key();
    Redis redis;
    redis.command({"SET", key, "mine", "PX", "60000", "NX"});
    Transaction late(key);
    expect(late.holds("mine"), "the lock is lost");
    redis.command({"DEL", key});
    redis.command({"SET", key, "theirs", "PX", "60000", "NX"});
    expect(late.exec({"DEL", key}).nil, "a change since WATCH goes unnoticed");
    expect(redis.command({"GET", key}) == "theirs", "the next holder has lost the lock");
}

}  // namespace

std::vector<Client> redis_plus_plus_clients() {
    return {
        {"redis-plus-plus-tx", "redis-plus-plus RedMutexTx (its commands on hiredis)", VERSION, holder<RedMutexTx>(),
         {{"overtaken", overtaken}}},
        {"redis-plus-plus", "redis-plus-plus RedLockMutex (its scripts on hiredis)", VERSION, holder<RedLockMutex>(), {}},
    };
}
