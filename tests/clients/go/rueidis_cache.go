//go:build !older

package main

import (
	"time"

	"github.com/redis/rueidis"
)

var rueidisMore = append(plainMore, check{"cached", rueidisCache})

// What one client has cached, it drops once another one takes or releases the lock. On its own it would keep it for
// longer than this program runs.
func rueidisCache(p *paces) {
	key := newKey()
	client := p.other.(plainLibrary).driver.(rueidisDriver).Client
	eventually := func(what string, is func(token string, isCached bool) bool) {
		for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			result := client.DoCache(p.ctx, client.B().Get().Key(key).Cache(), time.Hour)
			token, err := result.ToString()
			require(err == nil || rueidis.IsRedisNil(err), "cached GET: %v", err)
			if is(token, result.IsCacheHit()) {
				return
			}
			require(time.Now().Before(limit), "%s: the cache has %q", what, token)
		}
	}
	for range 5 {
		held := p.mustTake(p.mine, key, holdTTL)
		token := held.(plainLock).token
		eventually("taken", func(read string, isCached bool) bool { return read == token && isCached })
		p.mustRelease(held)
		eventually("released", func(read string, isCached bool) bool { return read == "" && isCached })
	}
}
