// The lock of the Redis documentation: `SET NX PX`, and a script to release it.

#include "client.hpp"
#include "redis.hpp"

namespace {

class PlainLock : public Lock {
public:
    explicit PlainLock(std::string key) : key(std::move(key)) {}

    bool acquire(long ttl_ms) override {
        return redis.command({"SET", key, token, "NX", "PX", std::to_string(ttl_ms)}) == "OK";
    }

    bool extend(long ttl_ms) override {
        return redis.eval(script("plain-extend"), key, {token, std::to_string(ttl_ms)}) == 1;
    }

    bool release() override { return redis.eval(script("plain-release"), key, {token}) == 1; }

private:
    Redis redis;
    std::string key, token = random_hex();
};

std::string version() {
    return std::to_string(HIREDIS_MAJOR) + "." + std::to_string(HIREDIS_MINOR) + "." + std::to_string(HIREDIS_PATCH);
}

}  // namespace

std::vector<Client> plain_clients() {
    return {{"hiredis", "hiredis", version(), holder<PlainLock>(), {}}};
}
