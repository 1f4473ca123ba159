//go:build !older

package main

import (
	"errors"

	"github.com/go-redsync/redsync/v4"
)

var redsyncMore = append(redsyncCommon, check{"extend takes", redsyncExtendTakes})

// saysExpired recognises the release script's answer -1, new in 4.12: nobody holds the lock.
func saysExpired(err error) bool {
	return errors.Is(err, redsync.ErrLockAlreadyExpired)
}

// With WithSetNXOnExtend an extension takes a lock that nobody holds, and leaves one that another
// holds.
func redsyncExtendTakes(p *paces) {
	library := p.mine.(redsyncLibrary)
	key := newKey()
	mine := library.mutex(key, holdTTL, redsync.WithSetNXOnExtend(), redsync.WithValue("mine"))
	other := library.mutex(key, holdTTL, redsync.WithSetNXOnExtend(), redsync.WithValue("other"))
	for _, what := range []string{"takes", "extends"} {
		extended, err := mine.ExtendContext(p.ctx)
		require(err == nil && extended, "%s: %v %v", what, extended, err)
	}
	extended, err := other.ExtendContext(p.ctx)
	require(!extended && lostIsNoError(err) == nil, "took what is held: %v %v", extended, err)
	p.mustRelease(redsyncLock{library, mine})
}
