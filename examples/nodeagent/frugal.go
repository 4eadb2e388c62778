package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// Limits on what an agent takes from its pods' machine (docs/benchmarks/node.md).
const (
	// frugalGC is how much garbage there may be, as a percentage of the live heap. An idle agent makes little.
	frugalGC = 50
	// frugalProcessors is how many goroutines run at a time. Even starting many pods at once takes a fraction
	// of a processor; with more of them, each of the short calls of an idle agent wakes several threads.
	frugalProcessors = 1
)

// frugal sets up the Go runtime, except what the environment sets, and returns the number of processors.
func frugal() (processors int) {
	processors = runtime.GOMAXPROCS(0)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(frugalGC)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(frugalProcessors)
	}
	return processors
}
