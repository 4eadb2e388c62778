package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// What an agent takes of the machine that its pods are to have (docs/benchmarks/node.md).
const (
	// frugalGC is how much garbage there may be, as a percentage of what is in use. An idle agent makes little.
	frugalGC = 50
	// frugalProcessors is how many goroutines run at a time. Even the start of a crowd of pods takes a fraction of a
	// processor; with more of them, each of the short calls of an idle agent wakes several threads.
	frugalProcessors = 1
)

// frugal sets the Go runtime up for an agent, but for what the environment says. It returns how many processors there are.
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
