package enginetest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/tree"
	"github.com/podwright/podwright/internal/tree/treetest"
	"github.com/podwright/podwright/runtime/fake"
)

var levels = flag.Int("levels", 3000, "how deep the tree of a pod is")

// TestDeepTreeHoldsUpNoPod (IN19): a pod leaves an emptyDir with more levels than a path can name
// and a process can hold open. The engine measures it and removes it, even after a restart of the
// agent, while other pods come and go.
func TestDeepTreeHoldsUpNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const others, rounds = 20, 4
		n := newHost(t, byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: time.Second}}}))
		deep := withScratch(newPod("deep"))
		deep.Spec.Volumes[0].EmptyDir.SizeLimit = new(resource.MustParse("100Gi"))
		r := n.agent()
		r.set(deep)
		r.phase(deep.UID, v1.PodRunning, time.Minute)
		volume := filepath.Dir(scratchFile(n.root, deep.UID))
		treetest.Chain(t, volume, *levels, 0)
		t.Cleanup(func() { // its remains are too deep for the cleanup of t.TempDir
			if err := tree.RemovePath(context.WithoutCancel(t.Context()), volume); err != nil {
				t.Error(err)
			}
		})
		<-time.After(30 * time.Second) // measured
		n.kill(r)
		r = n.agent()
		r.set(deep)
		r.phase(deep.UID, v1.PodRunning, time.Minute)
		for round := range rounds {
			pods := make([]*v1.Pod, others)
			for i := range pods {
				pods[i] = withScratch(newPod(fmt.Sprintf("other-%d-%d", round, i)))
			}
			if round == 0 {
				pods = append(pods, deep)
			}
			r.set(pods...) // from the second round on without the deep one
			for _, p := range pods {
				r.phase(p.UID, v1.PodRunning, time.Minute)
			}
		}
		r.set()
		r.empty(time.Minute)
		r.within(10*time.Second, "nothing on disk", func() error {
			var problems []error
			for _, folder := range []string{"pods", "pods.removed"} {
				entries, err := os.ReadDir(filepath.Join(n.root, folder))
				if len(entries) > 0 {
					err = fmt.Errorf("%s has %v", folder, entries)
				}
				problems = append(problems, err)
			}
			return errors.Join(problems...)
		})
		if err := r.problems(); err != nil {
			t.Error(err)
		}
	})
}
