// One connection to what listens at REDLOCK_ADDRESS, through hiredis.
#pragma once

#include <hiredis/hiredis.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

struct Reply {
    std::optional<std::string> text;  // a status or a bulk string
    long long integer = 0;
    std::vector<Reply> elements;
    bool nil = false;

    bool operator==(long long other) const { return !nil && !text && integer == other; }
    bool operator==(const char *other) const { return text == other; }
};

class Redis {
public:
    Redis();

    // Throws what Redis answers with when that is an error.
    Reply command(const std::vector<std::string> &arguments);
    Reply eval(const std::string &script, const std::string &key, const std::vector<std::string> &arguments);

private:
    std::unique_ptr<redisContext, decltype(&redisFree)> context;
};

// The text of scripts/NAME.lua.
std::string script(const std::string &name);

// A token for a new holder.
std::string random_hex();
