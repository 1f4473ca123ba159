package main

import (
	"context"
	"time"

	goredis8 "github.com/go-redis/redis/v8"
	"github.com/gomodule/redigo/redis"
	goredis9 "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

func dialGoredis9(address string) *goredis9.Client {
	return goredis9.NewClient(&goredis9.Options{Addr: address})
}

func dialGoredis8(address string) *goredis8.Client {
	return goredis8.NewClient(&goredis8.Options{Addr: address})
}

func dialRedigo(address string) *redis.Pool {
	return &redis.Pool{
		MaxIdle:     4,
		IdleTimeout: time.Minute,
		DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", address) },
	}
}

// dialRueidis has rueidis's own settings: it turns client-side caching on.
func dialRueidis(address string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
}
