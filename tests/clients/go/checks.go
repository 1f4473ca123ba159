package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

// holdTTL outlives the suite. A lock that lives longer than betweenTTL was extended to extendedTTL:
// TTLs need not be exact.
const (
	holdTTL     = 60 * time.Second
	betweenTTL  = 75 * time.Second
	extendedTTL = 90 * time.Second
)

// shortTTL is the TTL of locks that should expire.
const shortTTL = time.Second

// A check is one promise of a library. It returns if the promise was kept.
type check struct {
	name string
	run  func(*paces)
}

// paces are two strangers who use the same library, each over its own connections, and the lock
// that one of them holds.
type paces struct {
	ctx         context.Context
	mine, other library
	key         string
	held        lock
}

// In this order: a master may die after the first, and the lock it left must serve the next ones.
var common = []check{
	{"acquire", acquire},
	{"refuse", refuse},
	{"extend", extend},
	{"stranger", stranger},
	{"release", release},
	{"expire", expire},
	{"wait", wait},
}

func takeThroughItsPaces(client client) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	paces := &paces{ctx: ctx, mine: open(client), other: open(client), key: newKey()}
	for _, check := range append(common, client.more...) {
		check.run(paces)
		fmt.Printf("%s\tpassed\n", check.name)
	}
	fmt.Println("all locks held")
}

func acquire(p *paces) {
	p.held = p.mustTake(p.mine, p.key, holdTTL)
	middle()
}

func refuse(p *paces) {
	p.mustRefuse(p.key)
}

func extend(p *paces) {
	require(pttl(p.key) < betweenTTL, "a new lock lives longer than was asked: %v", pttl(p.key))
	extended, err := p.held.extend(p.ctx, extendedTTL)
	require(err == nil && extended, "extend: %v %v", extended, err)
	require(pttl(p.key) > betweenTTL, "extended, but the lock does not live longer: %v", pttl(p.key))
	p.mustRefuse(p.key)
}

// The stranger that every library knows is a holder whose lock expired and was taken by another.
func stranger(p *paces) {
	key := newKey()
	late := p.mustTake(p.mine, key, shortTTL)
	p.mustWait(p.other, key)
	released, err := late.release(p.ctx)
	require(err == nil && !released, "a stranger released: %v %v", released, err)
	extended, err := late.extend(p.ctx, holdTTL)
	require(err == nil && !extended, "a stranger extended: %v %v", extended, err)
	p.mustRefuse(key)
}

func release(p *paces) {
	p.mustRelease(p.held)
	p.mustRelease(p.mustTake(p.other, p.key, holdTTL))
}

func expire(p *paces) {
	key := newKey()
	late := p.mustTake(p.mine, key, shortTTL)
	eventually("the lock ran out", func() bool { return pttl(key) == gone })
	next := p.mustTake(p.other, key, holdTTL)
	released, err := late.release(p.ctx)
	require(err == nil && !released, "released what had run out: %v %v", released, err)
	p.mustRelease(next)
}

func wait(p *paces) {
	key := newKey()
	first := p.mustTake(p.mine, key, holdTTL)
	released := make(chan error, 1)
	go func() {
		time.Sleep(10 * retryDelay)
		ok, err := first.release(p.ctx)
		if err == nil && !ok {
			err = fmt.Errorf("the holder was told that it holds nothing")
		}
		released <- err
	}()
	second := p.mustWait(p.other, key)
	err := <-released
	require(err == nil, "release while another waits: %v", err)
	p.mustRelease(second)
}

func (p *paces) mustTake(library library, key string, ttl time.Duration) lock {
	held, err := library.take(p.ctx, key, ttl)
	require(err == nil, "take: %v", err)
	require(held != nil, "a free lock was refused")
	return held
}

func (p *paces) mustWait(library library, key string) lock {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	held, err := library.wait(ctx, key, holdTTL)
	require(err == nil && held != nil, "waited for the lock in vain: %v", err)
	return held
}

func (p *paces) mustRefuse(key string) {
	for _, library := range []library{p.mine, p.other} {
		held, err := library.take(p.ctx, key, holdTTL)
		require(err == nil, "take what is held: %v", err)
		require(held == nil, "a second holder got the lock")
	}
}

func (p *paces) mustRelease(held lock) {
	released, err := held.release(p.ctx)
	require(err == nil && released, "release: %v %v", released, err)
}

func eventually(what string, comesTrue func() bool) {
	for deadline := time.Now().Add(patience); !comesTrue(); time.Sleep(retryDelay) {
		require(time.Now().Before(deadline), "never: %s", what)
	}
}

func newKey() string {
	return "lock:" + rand.Text()
}
