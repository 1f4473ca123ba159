package main

import (
	"context"
	"time"
)

// A library takes locks the way applications that use it do. Each has its own connections.
type library interface {
	// take tries once. It returns no lock and no error if the library was refused.
	take(ctx context.Context, key string, ttl time.Duration) (lock, error)
	// wait tries until it gets the lock or ctx ends.
	wait(ctx context.Context, key string, ttl time.Duration) (lock, error)
}

// A lock is one holder's view of a lock, which it may have lost without knowing.
type lock interface {
	// extend reports whether the holder still held it.
	extend(ctx context.Context, ttl time.Duration) (bool, error)
	// release reports whether the holder still held it.
	release(ctx context.Context) (bool, error)
}

// A client is one line of the list: a library over a driver.
type client struct {
	id     string
	name   string
	module string // provides the client's version
	keys   string // Redis type of its lock's key
	open   func(address string) (library, error)
	more   []check // checks that only this library has
}

// Modules that several clients come from.
const (
	redsyncModule   = "github.com/go-redsync/redsync/v4"
	redislockModule = "github.com/bsm/redislock"
)

// retryDelay is the interval between attempts of a waiting client.
const retryDelay = 20 * time.Millisecond
