package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
)

type redislockLibrary struct {
	*redislock.Client
}

type redislockLock struct {
	*redislock.Lock
}

func openRedislock(address string) (library, error) {
	return redislockLibrary{redislock.New(dialGoredis9(address))}, nil
}

func (l redislockLibrary) take(ctx context.Context, key string, ttl time.Duration) (lock, error) {
	return l.obtain(ctx, key, ttl, nil)
}

func (l redislockLibrary) wait(ctx context.Context, key string, ttl time.Duration) (lock, error) {
	return l.obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(retryDelay)})
}

func (l redislockLibrary) obtain(ctx context.Context, key string, ttl time.Duration, options *redislock.Options) (lock, error) {
	held, err := l.Obtain(ctx, key, ttl, options)
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return redislockLock{held}, nil
}

func (l redislockLock) extend(ctx context.Context, ttl time.Duration) (bool, error) {
	err := l.Refresh(ctx, ttl, nil)
	return yes(err, redislock.ErrNotObtained)
}

func (l redislockLock) release(ctx context.Context) (bool, error) {
	err := l.Release(ctx)
	return yes(err, redislock.ErrLockNotHeld)
}

// yes returns false and no error for the error that only means no.
func yes(err, no error) (bool, error) {
	if errors.Is(err, no) {
		return false, nil
	}
	return err == nil, err
}

var redislockCommon = []check{{"ttl", redislockTTL}, {"same token", redislockSameToken}}

func redislockTTL(p *paces) {
	mine := p.mustTake(p.mine, newKey(), holdTTL).(redislockLock)
	left, err := mine.TTL(p.ctx)
	require(err == nil && 0 < left && left < betweenTTL, "TTL: %v %v", left, err)
	p.mustRelease(mine)
	left, err = mine.TTL(p.ctx)
	require(err == nil && left == 0, "TTL after its release: %v %v", left, err)
}

// A client that knows the token takes the lock over, and may change the metadata that is stored
// behind it.
func redislockSameToken(p *paces) {
	client := p.mine.(redislockLibrary)
	key := newKey()
	_, err := client.Obtain(p.ctx, key, holdTTL, &redislock.Options{Token: "mine", Metadata: " first"})
	require(err == nil, "obtain: %v", err)
	again, err := client.Obtain(p.ctx, key, holdTTL, &redislock.Options{Token: "mine", Metadata: " then"})
	require(err == nil && again.Metadata() == " then", "obtain with the same token: %v", err)
	_, err = client.Obtain(p.ctx, key, holdTTL, &redislock.Options{Token: "other"})
	require(errors.Is(err, redislock.ErrNotObtained), "obtain with another token: %v", err)
	p.mustRelease(redislockLock{again})
}
