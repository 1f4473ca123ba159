//go:build !older

package main

// rueidislock is missing: it is not available as a module of its own.
var clients = []client{
	{"redsync-goredis9", "redsync over go-redis 9", redsyncModule, "string", redsyncOverGoredis9, redsyncMore},
	{"redsync-goredis8", "redsync over go-redis 8", redsyncModule, "string", redsyncOverGoredis8, redsyncMore},
	{"redsync-redigo", "redsync over redigo", redsyncModule, "string", redsyncOverRedigo, redsyncMore},
	{"redsync-rueidis", "redsync over rueidis", redsyncModule, "string", redsyncOverRueidis, redsyncMore},
	{"redislock", "bsm/redislock", redislockModule, "string", openRedislock, redislockMore},
	{"goredis9", "go-redis 9, SETNX and EVALSHA", "github.com/redis/go-redis/v9", "string", plainGoredis9, goredis9More},
	{"goredis8", "go-redis 8, SETNX and EVALSHA", "github.com/go-redis/redis/v8", "string", plainGoredis8, plainMore},
	{"redigo", "redigo, SET NX and EVALSHA", "github.com/gomodule/redigo", "string", plainRedigo, plainMore},
	{"rueidis", "rueidis, SET NX and EVALSHA", "github.com/redis/rueidis", "string", plainRueidis, rueidisMore},
}
