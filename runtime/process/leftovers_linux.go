package process

import (
	"maps"

	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// leftovers are the containers that have ended and whose leftovers have not been looked for.
// Guarded by Runtime.mu.
type leftovers struct {
	of      map[string]bool
	killing bool
}

// killLeftovers kills what commands left behind in containers that have ended: processes in the
// background, and commands whose agent was killed. They are in no session of their container, so
// all processes are looked at: once for all containers that end meanwhile.
func (r *Runtime) killLeftovers(ended map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leftovers.of == nil {
		r.leftovers.of = map[string]bool{}
	}
	maps.Copy(r.leftovers.of, ended)
	if !r.leftovers.killing && len(r.leftovers.of) > 0 && !r.closed {
		r.leftovers.killing = true
		r.work.Go(r.killAllLeftovers)
	}
}

func (r *Runtime) killAllLeftovers() {
	for {
		r.mu.Lock()
		ended := r.leftovers.of
		r.leftovers.of, r.leftovers.killing = nil, len(ended) > 0
		r.mu.Unlock()
		if len(ended) == 0 {
			return
		}
		if err := osproc.KillByEnv(containerEnv, ended); err != nil {
			r.log.Error(err, "Cannot kill what commands left behind in containers that have ended")
		}
	}
}
