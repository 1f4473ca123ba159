package main

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// middle lets the harness kill a master while a lock is held: it creates the file that
// REDLOCK_MIDDLE names and waits for one with the same name and `.done`.
func middle() {
	here := os.Getenv("REDLOCK_MIDDLE")
	if here == "" {
		return
	}
	require(os.WriteFile(here, nil, 0o644) == nil, "cannot create %s", here)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(here + ".done"); !errors.Is(err, fs.ErrNotExist) {
			return
		}
		require(time.Now().Before(deadline), "nobody created %s.done", here)
	}
}
