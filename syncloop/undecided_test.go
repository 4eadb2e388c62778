package syncloop

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
)

// undecided is a source that is undecided when the test says so.
type undecided struct {
	*scripted
	mu  sync.Mutex
	why error
}

func (u *undecided) Undecided() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.why
}

// setWhile delivers a set while the source is undecided for the reason why, or decided if that is nil.
func (u *undecided) setWhile(why error, pods ...*v1.Pod) {
	u.steps <- func(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) (bool, error) {
		u.mu.Lock()
		u.why = why
		u.mu.Unlock()
		err := deliver(ctx, pods)
		return err != nil, err
	}
}

// TestUndecided: a source is undecided from the delivery that says so, before the loop sees its
// set, until the loop has handled a delivery that says otherwise.
func TestUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unread := errors.New("x.yaml is unreadable")
		source, plain, l := &undecided{scripted: newScripted("file")}, newScripted("other"), &log{}
		loop, stop := run(t, l, Options{Sources: []Source{source, plain}})
		defer stop()
		check := func(what string, want error) {
			t.Helper()
			synctest.Wait()
			if err := loop.Undecided(); !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), "source file: ") {
				t.Errorf("%s: undecided %v, want %v", what, err, want)
			}
			if s := loop.Sources(); !errors.Is(s[0].Undecided, want) || s[1].Undecided != nil {
				t.Errorf("%s: sources %+v", what, s)
			}
		}
		check("nothing was delivered", nil)
		source.setWhile(unread)
		plain.set()
		check("undecided from the start", unread)
		if !loop.Ready() {
			t.Error("the loop is not ready: a source that is undecided was heard all the same")
		}
		source.setWhile(unread, newPod("a", "a"))
		check("still undecided", unread)

		// While the loop is busy, the pods of the new set are not yet desired.
		loop.fence.Lock()
		source.setWhile(nil, newPod("a", "a"), newPod("x", "x"))
		check("decided, but not handled", unread)
		loop.fence.Unlock()
		check("decided and handled", nil)
		if _, ok := loop.Store().Get("x"); !ok {
			t.Error("decided before the pod is desired")
		}

		loop.fence.Lock()
		source.setWhile(unread, newPod("a", "a"), newPod("x", "x"))
		check("undecided at once", unread)
		source.setWhile(nil, newPod("a", "a"), newPod("x", "x"))
		source.setWhile(unread, newPod("a", "a"), newPod("x", "x"))
		loop.fence.Unlock()
		check("decided and undecided again", unread)
		source.setWhile(nil, newPod("a", "a"), newPod("x", "x"))
		check("a set without news decides too", nil)
	})
}
