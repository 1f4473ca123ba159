package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

var goredis9More = append(plainMore, check{"transaction", goredisTransaction})

// A release without a script: WATCH and GET, then MULTI, DEL, EXEC if the caller still holds the
// lock.
func goredisTransaction(p *paces) {
	key := newKey()
	held := p.mustTake(p.mine, key, holdTTL).(plainLock)
	client := held.driver.(goredis9Driver).Client
	deleteWatched := func(between func()) error {
		return client.Watch(p.ctx, func(watched *redis.Tx) error {
			token, err := watched.Get(p.ctx, key).Result()
			require(err == nil && token == held.token, "GET of a lock that is held: %q %v", token, err)
			between()
			_, err = watched.TxPipelined(p.ctx, func(queued redis.Pipeliner) error {
				return queued.Del(p.ctx, key).Err()
			})
			return err
		}, key)
	}
	err := deleteWatched(func() { p.mustOverwrite(client, key, "other") })
	require(errors.Is(err, redis.TxFailedErr), "deleted what had changed: %v", err)
	p.mustOverwrite(client, key, held.token)
	err = deleteWatched(func() {})
	require(err == nil && pttl(key) == gone, "release by transaction: %v", err)
}

func (p *paces) mustOverwrite(client *redis.Client, key, token string) {
	require(client.Set(context.WithoutCancel(p.ctx), key, token, holdTTL).Err() == nil, "SET")
}
