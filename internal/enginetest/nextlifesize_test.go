package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop/shutdown"
)

// TestNextLifeHasItsOwnResources: spec/runtime.md 21.1. The next life of a UID is allocated what it asks for, whatever
// the earlier life was admitted with.
func TestNextLifeHasItsOwnResources(t *testing.T) {
	gone := func(r *rig, p *v1.Pod) {
		r.set()
		r.within(time.Minute, "its end", func() error {
			if r.pod(p.UID) != nil {
				return errors.New("it is there")
			}
			return nil
		})
		<-time.After(time.Second) // two lives are not admitted at the same moment
	}
	again := func(r *rig) *rig {
		r.stop()
		return newRig(r.t, r.runtime, r.root, roomFor("4")).start()
	}
	for name, end := range map[string]func(r *rig, p *v1.Pod) *rig{
		"after a shutdown": func(r *rig, _ *v1.Pod) *rig {
			if _, err := r.engine.Shutdown(r.t.Context(), shutdown.Plan{}); err != nil {
				r.t.Fatal(err)
			}
			return again(r)
		},
		"in another agent": func(r *rig, p *v1.Pod) *rig {
			gone(r, p)
			return again(r)
		},
		"after a kill before its allocation was dropped": func(r *rig, p *v1.Pod) *rig {
			dir, kept := filepath.Join(r.root, "state", "resources"), r.t.TempDir()
			if err := os.MkdirAll(dir, 0o700); err != nil {
				r.t.Fatal(err)
			}
			restore := func(to, from string) {
				if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
					r.t.Fatal(err)
				}
			}
			restore(kept, dir)
			gone(r, p)
			r.stop()
			restore(dir, kept)
			return newRig(r.t, r.runtime, r.root, roomFor("4")).start()
		},
		"in the same agent": func(r *rig, p *v1.Pod) *rig {
			gone(r, p)
			return r
		},
	} {
		for _, more := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", more ", more), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, byContainer(nil), t.TempDir(), roomFor("4")).start()
					p := newPod("web")
					first, next, want := sized(p, "2", "64Mi"), p, int64(0)
					if more {
						first, next, want = p, first, 2
					}
					r.set(first)
					r.phase(p.UID, v1.PodRunning, time.Minute)
					r = end(r, p)
					r.set(next)
					<-time.After(time.Minute)
					r.phase(p.UID, v1.PodRunning, time.Minute)
					if got := given(r, p); got != want {
						t.Errorf("%d CPUs, want %d: %+v", got, want, r.pod(p.UID).Status.Conditions[0])
					}
				})
			})
		}
	}
}
