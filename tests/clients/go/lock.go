package main

import (
	"context"
	"time"
)

// A library takes locks the way applications that use it do. Each has connections of its own.
type library interface {
	// take tries once. No lock and no error: it was refused.
	take(ctx context.Context, key string, ttl time.Duration) (lock, error)
	// wait tries until it gets the lock or ctx ends.
	wait(ctx context.Context, key string, ttl time.Duration) (lock, error)
}

// A lock is what one holder has in hand. It may have lost it without knowing.
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
	module string // whose version is the client's
	keys   string // the type of key that its lock is
	open   func(address string) (library, error)
	more   []check // what this library has beyond the common checks
}

// Modules that two clients or more come from.
const (
	redsyncModule   = "github.com/go-redsync/redsync/v4"
	redislockModule = "github.com/bsm/redislock"
)

// retryDelay is how often those who wait look again.
const retryDelay = 20 * time.Millisecond
