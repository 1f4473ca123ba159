package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis"
	overGoredis8 "github.com/go-redsync/redsync/v4/redis/goredis/v8"
	overGoredis9 "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	overRedigo "github.com/go-redsync/redsync/v4/redis/redigo"
	overRueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

type redsyncLibrary struct {
	*redsync.Redsync
}

type redsyncLock struct {
	redsyncLibrary
	*redsync.Mutex
}

func redsyncOverGoredis9(address string) (library, error) {
	return newRedsync(overGoredis9.NewPool(dialGoredis9(address)))
}

func redsyncOverGoredis8(address string) (library, error) {
	return newRedsync(overGoredis8.NewPool(dialGoredis8(address)))
}

func redsyncOverRedigo(address string) (library, error) {
	return newRedsync(overRedigo.NewPool(dialRedigo(address)))
}

func redsyncOverRueidis(address string) (library, error) {
	client, err := dialRueidis(address)
	if err != nil {
		return nil, err
	}
	return newRedsync(overRueidis.NewPool(rueidiscompat.NewAdapter(client)))
}

func newRedsync(pool pools.Pool) (library, error) {
	return redsyncLibrary{redsync.New(pool)}, nil
}

func (l redsyncLibrary) take(ctx context.Context, key string, ttl time.Duration) (lock, error) {
	return l.lock(ctx, l.mutex(key, ttl, redsync.WithTries(1)))
}

func (l redsyncLibrary) wait(ctx context.Context, key string, ttl time.Duration) (lock, error) {
	return l.lock(ctx, l.mutex(key, ttl, redsync.WithTries(math.MaxInt), redsync.WithRetryDelay(retryDelay)))
}

// mutex gives one request half the TTL. redsync's default is a twentieth: too little for a lock of
// a second on a busy machine.
func (l redsyncLibrary) mutex(key string, ttl time.Duration, options ...redsync.Option) *redsync.Mutex {
	return l.NewMutex(key, append(options, redsync.WithExpiry(ttl), redsync.WithTimeoutFactor(0.5))...)
}

func (l redsyncLibrary) lock(ctx context.Context, mutex *redsync.Mutex) (lock, error) {
	var taken *redsync.ErrTaken
	switch err := mutex.LockContext(ctx); {
	case errors.As(err, &taken):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return redsyncLock{l, mutex}, nil
}

// extend uses a second mutex: the TTL is fixed when a mutex is made, and WithValue hands the lock
// over.
func (l redsyncLock) extend(ctx context.Context, ttl time.Duration) (bool, error) {
	extended, err := l.mutex(l.Name(), ttl, redsync.WithValue(l.Value())).ExtendContext(ctx)
	return extended, lostIsNoError(err)
}

func (l redsyncLock) release(ctx context.Context) (bool, error) {
	released, err := l.UnlockContext(ctx)
	return released, lostIsNoError(err)
}

func lostIsNoError(err error) error {
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || saysExpired(err) {
		return nil
	}
	return err
}

var redsyncCommon = []check{{"valid", redsyncValid}}

func redsyncValid(p *paces) {
	mine := p.mustTake(p.mine, newKey(), holdTTL).(redsyncLock)
	valid, err := mine.ValidContext(p.ctx)
	require(err == nil && valid, "valid: %v %v", valid, err)
	p.mustRelease(mine)
	valid, err = mine.ValidContext(p.ctx)
	require(!valid && lostIsNoError(err) == nil, "valid after its release: %v %v", valid, err)
}
