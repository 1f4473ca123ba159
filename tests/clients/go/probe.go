package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// What Redis says instead of a TTL, as go-redis hands it on.
const (
	lasting = time.Duration(-1) // the key has none
	gone    = time.Duration(-2) // the key does not exist
)

var probe = sync.OnceValue(func() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address()})
})

// pttl looks at a lock from outside: not every library tells how long its locks live.
func pttl(key string) time.Duration {
	left, err := probe().PTTL(context.Background(), key).Result()
	require(err == nil, "PTTL: %v", err)
	return left
}
