// The common checks of a client's lock.
#pragma once

#include "client.hpp"

#include <chrono>
#include <functional>
#include <string>

constexpr long LONG_MS = 90'000;
constexpr long LONGER_MS = 180'000;
constexpr long SHORT_MS = 1'500;
constexpr std::chrono::seconds PATIENCE{20};

void check_client(const Client &client);

void expect(bool condition, const std::string &complaint);
void eventually(const std::function<bool()> &condition, std::chrono::seconds patience, const std::string &complaint);
std::string new_key();

// The remaining TTL according to Redis, independent of the library.
long long pttl(const std::string &key);
