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
	// to one Runtime at a time; New fails while another one holds it.
	Root string

	// Supervisor, as returned by [Shim], puts a supervisor process between the
	// agent and each container, so that exit codes and logs survive the agent.
	// Zero: the agent is the containers' parent, and the exit code of a
	// container that ended while no agent ran is reported as unknown.
	Supervisor Supervisor

	// Logger receives what the runtime has to say. The zero value is silent.
	Logger logr.Logger

	// Clock times grace periods and exec time-outs and stamps log lines and
	// records written by the agent; a supervisor uses the real clock.
	// Nil means the real clock.
	Clock clock.WithDelayedExecution

	// Rand is where IDs come from. It must give 32 fresh bytes for every ID.
	// Nil means crypto/rand.
	Rand io.Reader
}

// Supervisor is the proof that the embedding program calls [Shim], and with it
// the permission to run the program's own binary again. Its zero value permits
// nothing: a program that never calls Shim is never run a second time.
type Supervisor struct {
	executable string
}

// Enabled reports whether s came from [Shim] on a system that supports it.
func (s Supervisor) Enabled() bool { return s.executable != "" }
