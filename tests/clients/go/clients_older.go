//go:build older

package main

var clients = []client{
	{"redsync-4.11-goredis9", "redsync 4.11 over go-redis 9", redsyncModule, "string", redsyncOverGoredis9, redsyncMore},
	{"redsync-4.11-redigo", "redsync 4.11 over redigo", redsyncModule, "string", redsyncOverRedigo, redsyncMore},
	{"redsync-4.11-rueidis", "redsync 4.11 over rueidis", redsyncModule, "string", redsyncOverRueidis, redsyncMore},
	{"redislock-0.9", "bsm/redislock 0.9", redislockModule, "string", openRedislock, redislockMore},
	{"goredis9-older", "go-redis 9.5, SETNX and EVALSHA", "github.com/redis/go-redis/v9", "string", plainGoredis9, goredis9More},
}
