//go:build !older

package main

import (
	"errors"

	"github.com/bsm/redislock"
)

var redislockMore = append(redislockCommon, check{"multi", redislockMulti})

// One lock over several keys, all or nothing, is new in 0.10.
func redislockMulti(p *paces) {
	mine, other := p.mine.(redislockLibrary), p.other.(redislockLibrary)
	keys := []string{newKey(), newKey(), newKey()}
	held, err := mine.ObtainMulti(p.ctx, keys, holdTTL, nil)
	require(err == nil, "obtain several keys: %v", err)
	overlap := []string{newKey(), keys[2]}
	_, err = other.ObtainMulti(p.ctx, overlap, holdTTL, nil)
	require(errors.Is(err, redislock.ErrNotObtained), "obtain keys of which one is held: %v", err)
	p.mustRelease(redislockLock{p.mustObtain(other, overlap[0])})
	require(held.Refresh(p.ctx, extendedTTL, nil) == nil, "refresh several keys")
	for _, key := range keys {
		require(pttl(key) > betweenTTL, "%s was not refreshed", key)
	}
	p.mustRelease(redislockLock{held})
	for _, key := range keys {
		p.mustRelease(redislockLock{p.mustObtain(other, key)})
	}
}

func (p *paces) mustObtain(library redislockLibrary, key string) *redislock.Lock {
	held, err := library.Obtain(p.ctx, key, holdTTL, nil)
	require(err == nil, "obtain %s: %v", key, err)
	return held
}
