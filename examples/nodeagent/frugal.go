package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// Limits on what an agent takes from its pods' machine (docs/benchmarks/node.md).
const (
	// frugalGC is how much garbage there may be, as a percentage of the live heap. An idle agent makes little.
	frugalGC = 50
	// frugalProcessors is how many goroutines run at a time. Even starting many pods at once takes a fraction
	// of a processor; with more of them, each of the short calls of an idle agent wakes several threads.
	frugalProcessors = 1
	// startedAfter is when everything that only a start needs has been done.
	startedAfter = time.Minute
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

// forgetStart gives memory back to the machine once the agent has started: what the heap no longer needs, and the
// pages of the program that only a start uses, about a fifth of the agent's memory.
func (a *agent) forgetStart(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(startedAfter):
	}
	debug.FreeOSMemory()
	if err := dropStartPages(); err != nil {
		a.log.Debug("what only a start needs of the program stays in memory", "reason", err.Error())
	}
}
