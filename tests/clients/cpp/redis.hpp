// One connection to the server at REDLOCK_ADDRESS, through hiredis.
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

    // Throws if Redis answers with an error.
    Reply command(const std::vector<std::string> &arguments);
    Reply eval(const std::string &script, const std::string &key, const std::vector<std::string> &arguments);

private:
    std::unique_ptr<redisContext, decltype(&redisFree)> context;
};

// Returns the text of scripts/NAME.lua.
std::string script(const std::string &name);

// Returns a token for a new holder.
std::string random_hex();
