package node

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/syncloop/admission"
)

// LimitHandlers puts admission handlers of the user under a time limit (IN6). answered hears
// of a pod on which one of them gave its verdict late.
func LimitHandlers(handlers []admission.Handler, c clock.Clock, answered func(uid types.UID)) []admission.Handler {
	out := slices.Clone(handlers)
	for i, h := range out {
		if h != nil {
			out[i] = admission.Limit(h, c, answered)
		}
	}
	return out
}

// Stopping lists a component of the engine that does not end although it was told to.
func Stopping(calls *foreign.Calls) func(name string) (done func()) {
	return func(name string) func() {
		return calls.Watch(foreign.Call{Kind: problem.Stop, Name: name, Patience: problem.EndLimit})
	}
}
