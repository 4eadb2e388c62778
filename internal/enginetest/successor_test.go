package enginetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/mirror"
)

// TestSuccessorOfAForceDeletedPod: KT8, KS6. A pod that an API forgets at once, with grace 0, stops
// with the grace of its spec and leaves nothing. Its successor with the same name, from the same answer
// or a later one, starts once and is not affected, even if the agent is killed between the two.
func TestSuccessorOfAForceDeletedPod(t *testing.T) {
	for _, when := range []string{"in one answer", "later", "after kill -9", "while it stops, after kill -9"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, h := &mirror.FakeClient{}, newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 5 * time.Second}}}))
				fromAPI := func(c *podwright.Config) { c.Sources = append(c.Sources, apiSource{api: api}) }
				r := h.agent(fromAPI)
				r.set()
				old, next := newPod("web"), newPod("web")
				old.UID, next.UID = "uid-old", "uid-next"
				api.Put(old)
				r.phase(old.UID, v1.PodRunning, 5*time.Second)
				<-time.After(time.Minute)
				if when != "in one answer" {
					if err := api.Delete(t.Context(), old.Namespace, old.Name, old.UID); err != nil {
						t.Fatal(err)
					}
				}
				if when == "later" || when == "while it stops, after kill -9" {
					<-time.After(2 * time.Second) // it is stopping
				}
				if strings.HasSuffix(when, "after kill -9") {
					h.kill(r)
					api.Put(next)
					r = h.agent(fromAPI)
					r.set()
				} else {
					api.Put(next)
				}
				r.phase(next.UID, v1.PodRunning, 20*time.Second)
				r.within(20*time.Second, "the old pod to be gone", func() error {
					if n := h.rt.Running(old.UID, "main"); n != 0 {
						return fmt.Errorf("%d of its containers run", n)
					}
					if _, known := r.engine.Pod(old.UID); known {
						return fmt.Errorf("it is known")
					}
					if _, err := os.Stat(filepath.Join(r.root, "pods", string(old.UID))); !os.IsNotExist(err) {
						return fmt.Errorf("its folder is there: %w", err)
					}
					return nil
				})
				<-time.After(10 * time.Minute)
				for _, method := range []fake.Method{fake.StopContainer, fake.StopPodSandbox, fake.RemoveContainer, fake.RemovePodSandbox} {
					if calls := h.rt.Calls(fake.Match{Method: method, PodUID: next.UID}); len(calls) != 0 {
						t.Errorf("KT8: %s was called for the successor at %v", method, calls[0].Start)
					}
				}
				if n := starts(h.rt, next.UID); n != 1 || h.rt.Running(next.UID, "main") != 1 {
					t.Errorf("KT8: the successor was started %d times", n)
				}
				// A newer status replaces one that has not been sent yet.
				if phases, _ := r.sink.of(next.UID); len(phases) == 0 || slices.ContainsFunc(phases[:len(phases)-1], func(p v1.PodPhase) bool { return p != v1.PodPending }) || phases[len(phases)-1] != v1.PodRunning {
					t.Errorf("KT8: the successor went through %v", phases)
				}
				if shown, ok := r.engine.PodNamed("default", "web"); !ok || shown.UID != next.UID {
					t.Errorf("the name leads to %+v", shown)
				}
				if left, err := os.ReadDir(filepath.Join(r.root, "pods")); err != nil || len(left) != 1 || left[0].Name() != string(next.UID) {
					t.Errorf("folders of pods: %v, %v", left, err)
				}
				if err := r.problems(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
