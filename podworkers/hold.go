package podworkers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/internal/machine"
)

// errWanted is the cause of a context that ends because the pod is wanted again.
var errWanted = errors.New("the pod is wanted again: its next life waits for the end of this removal")

// Hold is called before something of a pod is removed: its folder, volumes, logs, cgroup,
// containers or records. No new life of the UID starts until release is called; its updates
// are accepted and wait, which [Workers.Explain] shows with the reason, such as "remove pod
// folder". Other pods do not wait.
//
// It fails (ok is false) while a life of the UID is under way, including one that waits to
// start: then nothing may be removed. A UID may be held several times.
//
// held ends with ctx, and also when a new life begins to wait: the removal then stops
// before its next destructive step. release must be called when the removal has ended, in
// whatever way, and may be called again; without it the UID never runs again.
func (w *Workers) Hold(ctx context.Context, uid types.UID, reason string) (held context.Context, release func(), ok bool) {
	held, cut := context.WithCancelCause(ctx)
	b := w.event(machine.EventHold)
	b.event.UID, b.event.Hold = uid, machine.Hold{Reason: reason, Handle: cut}
	_, answer := w.apply(b, nil)
	if answer.Hold == 0 {
		cut(nil)
		return ctx, func() {}, false
	}
	var once sync.Once
	return held, func() {
		once.Do(func() {
			cut(nil)
			b := w.event(machine.EventRelease)
			b.event.UID, b.event.Hold.ID = uid, answer.Hold
			w.apply(b, nil)
		})
	}, true
}

// waitsFor is what a pod waits for, with the removals that keep it from starting.
func waitsFor(e *machine.Explanation, now reading) string {
	if len(e.Holds) == 0 {
		return e.Waiting
	}
	var holds []string
	for _, h := range e.Holds {
		holds = append(holds, h.Reason+", since "+now.at(h.Since).Format(time.RFC3339))
	}
	return e.Waiting + ": " + strings.Join(holds, "; ")
}
