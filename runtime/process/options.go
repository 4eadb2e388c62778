package process

import (
	"io"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Options configures a [Runtime]. Only Root is required.
type Options struct {
	// Root is the absolute path of the runtime's own folder: records, FIFOs and
	// exit codes live there. It is created with mode 0700 if missing and belongs
	// to one Runtime at a time; New fails while another one holds it, and if other
	// users can replace it (spec/cleanup.md RD1).
	Root string

	// Supervisor, as returned by [Shim], puts a supervisor process between the
	// agent and each container, so that exit codes and logs survive the agent.
	// Zero: the agent is the containers' parent, and the exit code of a
	// container that ended while no agent ran is reported as unknown.
	Supervisor Supervisor

	// Logger receives messages of the runtime. The zero value is silent.
	Logger logr.Logger

	// Clock times grace periods and exec time-outs and stamps log lines and
	// records written by the agent; a supervisor uses the real clock.
	// Nil means the real clock.
	Clock clock.WithDelayedExecution

	// Rand is the source of IDs. It must give 32 new bytes for every ID.
	// Nil means crypto/rand.
	Rand io.Reader
}

// Supervisor proves that the embedding program calls [Shim], so that the runtime may
// run the program's own binary again. With the zero value it never does.
type Supervisor struct {
	executable string
}

// enabled reports whether s came from [Shim] on a system that supports it.
func (s Supervisor) enabled() bool { return s.executable != "" }
