package main

import (
	"context"
	"crypto/rand"
	"time"
)

const releaseScript = `if redis.call("get", KEYS[1]) == ARGV[1] then
	return redis.call("del", KEYS[1])
else
	return 0
end`

const extendScript = `if redis.call("get", KEYS[1]) == ARGV[1] then
	return redis.call("pexpire", KEYS[1], ARGV[2])
else
	return 0
end`

// A driver provides the commands for a lock that an application implements itself.
type driver interface {
	// setNX without a TTL (0) makes a lock that lasts.
	setNX(ctx context.Context, key, token string, ttl time.Duration) (bool, error)
	// eval sends EVALSHA first, as the drivers do, and EVAL if the script is unknown.
	eval(ctx context.Context, script, key string, arguments ...string) (int64, error)
}

type plainLibrary struct {
	driver
}

type plainLock struct {
	driver
	key, token string
}

func (l plainLibrary) take(ctx context.Context, key string, ttl time.Duration) (lock, error) {
	token := rand.Text()
	taken, err := l.setNX(ctx, key, token, ttl)
	if err != nil || !taken {
		return nil, err
	}
	return plainLock{l.driver, key, token}, nil
}

func (l plainLibrary) wait(ctx context.Context, key string, ttl time.Duration) (lock, error) {
	for {
		if held, err := l.take(ctx, key, ttl); held != nil || err != nil {
			return held, err
		}
		time.Sleep(retryDelay)
	}
}

func (l plainLock) extend(ctx context.Context, ttl time.Duration) (bool, error) {
	extended, err := l.eval(ctx, extendScript, l.key, l.token, milliseconds(ttl))
	return extended == 1, err
}

func (l plainLock) release(ctx context.Context) (bool, error) {
	released, err := l.eval(ctx, releaseScript, l.key, l.token)
	return released == 1, err
}

var plainMore = []check{{"no ttl", plainWithoutTTL}}

func plainWithoutTTL(p *paces) {
	key := newKey()
	mine := p.mustTake(p.mine, key, 0)
	require(pttl(key) == lasting, "a lock without TTL has one: %v", pttl(key))
	p.mustRefuse(key)
	p.mustRelease(mine)
}
