// A client, as the checks see it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

// A potential lock holder, with its own connection and token. Each call returns whether it took
// effect.
class Lock {
public:
    virtual ~Lock() = default;
    virtual bool acquire(long ttl_ms) = 0;
    virtual bool extend(long ttl_ms) = 0;
    virtual bool release() = 0;
};

using Holder = std::function<std::unique_ptr<Lock>(const std::string &key)>;

struct Client {
    std::string id;
    std::string name;  // for display
    std::string version;
    Holder lock;
    std::map<std::string, std::function<void()>> more;  // checks that only this client has
};

template <class SomeLock>
Holder holder() {
    return [](const std::string &key) { return std::make_unique<SomeLock>(key); };
}

std::vector<Client> plain_clients();
std::vector<Client> redlock_cpp_clients();
std::vector<Client> redis_plus_plus_clients();
