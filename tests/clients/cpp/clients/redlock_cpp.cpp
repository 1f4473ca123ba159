// jacket-code/redlock-cpp: the commands that it sends, through the driver it uses.

#include "checks.hpp"
#include "client.hpp"
#include "redis.hpp"

namespace {

class RedlockCpp : public Lock {
public:
    explicit RedlockCpp(std::string resource) : resource(std::move(resource)) {}

    // A refused attempt is taken back, as Redlock requires.
    bool acquire(long ttl_ms) override {
        value = random_hex();
        const bool granted = redis.command({"set", resource, value, "px", std::to_string(ttl_ms), "nx"}) == "OK";
        if (!granted) take_back();
        return granted;
    }

    // Continuing a lock gives it a new value, and takes it if it is free.
    bool extend(long ttl_ms) override {
        const auto old = value;
        value = random_hex();
        return redis.eval(script("redlock-cpp-continue"), resource, {old, value, std::to_string(ttl_ms)}) == "OK";
    }

    bool release() override { return redis.eval(script("redlock-cpp-unlock"), resource, {value}) == 1; }

private:
    // The library ignores the reply here, even an error because the key is another library's lock,
    // of another type.
    void take_back() {
        try {
            release();
        } catch (const std::runtime_error &) {
        }
    }

    Redis redis;
    std::string resource, value;
};

void continues_a_free_lock() {
    const auto key = new_key();
    RedlockCpp first(key), second(key);
    expect(first.extend(LONG_MS), "a free lock is not taken");
    expect(!second.extend(LONG_MS), "somebody else continues the lock");
    expect(!second.release() && first.release(), "the lock has the wrong holder");
}

}  // namespace

std::vector<Client> redlock_cpp_clients() {
    return {{"redlock-cpp", "redlock-cpp (its scripts on hiredis)", "f9f5618", holder<RedlockCpp>(),
             {{"continue", continues_a_free_lock}}}};
}
