// Locks of C++ clients, exactly as applications take them, against the server at REDLOCK_ADDRESS.

#include "checks.hpp"
#include "client.hpp"

#include <iostream>
#include <stdexcept>

using Arguments = std::vector<std::string>;

static std::vector<Client> clients() {
    std::vector<Client> all;
    for (const auto &some : {plain_clients(), redlock_cpp_clients(), redis_plus_plus_clients()}) {
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

static Client client(const std::string &id) {
    for (const auto &client : clients()) {
        if (client.id == id) return client;
    }
    throw std::runtime_error("no such client: " + id);
}

static void list() {
    for (const auto &client : clients()) {
        std::cout << client.id << '\t' << client.name << '\t' << client.version << "\tstring\n";
    }
}

static void hold(const Client &client, const Arguments &keys) {
    for (const auto &key : keys) {
        expect(client.lock(key)->acquire(120'000), key + " is not free");
        std::cout << "held\t" << key << std::endl;
    }
}

static void try_keys(const Client &client, const Arguments &keys) {
    for (const auto &key : keys) {
        std::cout << (client.lock(key)->acquire(120'000) ? "taken\t" : "refused\t") << key << std::endl;
    }
}

static void act(const std::string &action, const Arguments &arguments) {
    if (action == "list") return list();
    expect(!arguments.empty(), "which client?");
    const Client chosen = client(arguments[0]);
    const Arguments keys(arguments.begin() + 1, arguments.end());
    if (action == "check") return check_client(chosen);
    if (action == "hold") return hold(chosen, keys);
    if (action == "try") return try_keys(chosen, keys);
    throw std::runtime_error("no such action: " + action);
}

int main(int argc, char **argv) {
    try {
        expect(argc > 1, "list, check, hold or try?");
        act(argv[1], Arguments(argv + 2, argv + argc));
        return 0;
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
