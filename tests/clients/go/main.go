// Command locks takes the locks of Go's Redis libraries against the server at REDLOCK_ADDRESS.
//
//	locks list              one line per client: id, name, version, type of key
//	locks check ID          everything the library promises
//	locks hold ID KEY...    takes the keys and dies without releasing them
//	locks try ID KEY...     tries to take the keys once
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// patience bounds every wait for an expected event. Nothing is expected to be fast.
const patience = 20 * time.Second

// heldTTL is the TTL of locks that `hold` leaves behind.
const heldTTL = 120 * time.Second

func main() {
	switch words := os.Args[1:]; {
	case len(words) == 1 && words[0] == "list":
		list()
	case len(words) == 2 && words[0] == "check":
		takeThroughItsPaces(find(words[1]))
	case len(words) > 2 && words[0] == "hold":
		hold(find(words[1]), words[2:])
	case len(words) > 2 && words[0] == "try":
		try(find(words[1]), words[2:])
	default:
		fail("usage: %s list | check ID | hold ID KEY... | try ID KEY...", os.Args[0])
	}
}

func list() {
	for _, client := range clients {
		fmt.Printf("%s\t%s\t%s\t%s\n", client.id, client.name, version(client.module), client.keys)
	}
}

// hold exits with everything still held. A decent program would close the client, but one that
// crashes does not.
func hold(client client, keys []string) {
	takeEach(client, keys, func(key string, held lock) {
		require(held != nil, "%s is held by another", key)
		fmt.Printf("held\t%s\n", key)
	})
}

func try(client client, keys []string) {
	takeEach(client, keys, func(key string, held lock) {
		if held == nil {
			fmt.Printf("refused\t%s\n", key)
		} else {
			fmt.Printf("taken\t%s\n", key)
		}
	})
}

func takeEach(client client, keys []string, tell func(key string, held lock)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	library := open(client)
	for _, key := range keys {
		held, err := library.take(ctx, key, heldTTL)
		require(err == nil, "%s: %v", key, err)
		tell(key, held)
	}
}

func find(id string) client {
	for _, client := range clients {
		if client.id == id {
			return client
		}
	}
	fail("no client %q: see `list`", id)
	return client{}
}

func open(client client) library {
	library, err := client.open(address())
	require(err == nil, "%s: %v", client.name, err)
	return library
}

func address() string {
	address := os.Getenv("REDLOCK_ADDRESS")
	require(address != "", "REDLOCK_ADDRESS: host:port of what to test")
	return address
}

// version returns the linked version rather than one that somebody wrote down.
func version(module string) string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range build.Deps {
			if dependency.Path == module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return "unknown"
}

// require ends the program unless ok: after a failed check, the remaining ones prove nothing.
func require(ok bool, format string, arguments ...any) {
	if !ok {
		fail(format, arguments...)
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
