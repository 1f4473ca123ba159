package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis's replies in place of a TTL, as go-redis returns them.
const (
	lasting = time.Duration(-1) // the key has none
	gone    = time.Duration(-2) // the key does not exist
)

var probe = sync.OnceValue(func() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address()})
})

// pttl reads a lock's TTL from outside: not every library reports it.
func pttl(key string) time.Duration {
	left, err := probe().PTTL(context.Background(), key).Result()
	require(err == nil, "PTTL: %v", err)
	return left
}
