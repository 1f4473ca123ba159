#include "redis.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

static std::string environment(const char *name) {
    const char *value = std::getenv(name);
    if (!value) throw std::runtime_error(std::string(name) + " is not set");
    return value;
}

static redisContext *connect() {
    const std::string address = environment("REDLOCK_ADDRESS");
    const auto colon = address.rfind(':');
    return redisConnect(address.substr(0, colon).c_str(), std::stoi(address.substr(colon + 1)));
}

Redis::Redis() : context(connect(), redisFree) {
    if (!context) throw std::bad_alloc();
    if (context->err) throw std::runtime_error(context->errstr);
}

static Reply converted(const redisReply &raw) {
    Reply reply;
    switch (raw.type) {
        case REDIS_REPLY_ERROR: throw std::runtime_error(std::string(raw.str, raw.len));
        case REDIS_REPLY_NIL: reply.nil = true; break;
        case REDIS_REPLY_INTEGER: reply.integer = raw.integer; break;
        case REDIS_REPLY_ARRAY:
            for (size_t i = 0; i < raw.elements; i++) reply.elements.push_back(converted(*raw.element[i]));
            break;
        default: reply.text = std::string(raw.str, raw.len);
    }
    return reply;
}

Reply Redis::command(const std::vector<std::string> &arguments) {
    std::vector<const char *> texts;
    std::vector<size_t> lengths;
    for (const auto &argument : arguments) {
        texts.push_back(argument.data());
        lengths.push_back(argument.size());
    }
    void *raw = redisCommandArgv(context.get(), static_cast<int>(texts.size()), texts.data(), lengths.data());
    if (!raw) throw std::runtime_error(context->errstr);
    const std::unique_ptr<void, decltype(&freeReplyObject)> owner(raw, freeReplyObject);
    return converted(*static_cast<redisReply *>(raw));
}

Reply Redis::eval(const std::string &script, const std::string &key, const std::vector<std::string> &arguments) {
    std::vector<std::string> command{"EVAL", script, "1", key};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return this->command(command);
}

std::string script(const std::string &name) {
    std::ifstream file(environment("LOCK_SCRIPTS") + "/" + name + ".lua", std::ios::binary);
    if (!file) throw std::runtime_error("there is no script " + name);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string random_hex() {
    std::random_device random;
    std::string text;
    for (int i = 0; i < 5; i++) {
        char word[9];
        std::snprintf(word, sizeof word, "%08X", random());
        text += word;
    }
    return text;
}
