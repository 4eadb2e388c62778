package enginetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// withScratch gives the pod an emptyDir named scratch.
func withScratch(p *v1.Pod) *v1.Pod {
	p.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	return p
}

// scratchFile is a file in that emptyDir.
func scratchFile(root string, uid types.UID) string {
	return filepath.Join(root, "pods", string(uid), "volumes", "kubernetes.io~empty-dir", "scratch", "data")
}

// TestFullDiskHealsItself: IN4. Pods fill the disk: no record can be written until all they
// have in their emptyDirs is gone. When they are removed it goes, whatever waits for a record;
// all other pods run on, and every record is written in the end.
func TestFullDiskHealsItself(t *testing.T) {
	const n = 10
	for _, bad := range []int{1, 5, n - 1} {
		t.Run(fmt.Sprintf("%d of %d", bad, n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, fake.New(fake.Options{}))
				otel := &counters{}
				r := h.agent(func(c *podwright.Config) { c.Observe.MeterProvider = otel })
				var good, all []*v1.Pod
				for i := range n {
					p := withScratch(newPod(fmt.Sprintf("pod-%02d", i)))
					all = append(all, p)
					if i >= bad {
						good = append(good, p)
					}
				}
				r.set(all...)
				for _, p := range all {
					r.phase(p.UID, v1.PodRunning, time.Minute)
				}
				for _, p := range all[:bad] {
					if err := os.WriteFile(scratchFile(h.root, p.UID), []byte("much"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				left := func() error {
					for _, p := range all[:bad] {
						if _, err := os.Stat(scratchFile(h.root, p.UID)); err == nil {
							return fmt.Errorf("%s has data on the disk, %s", p.Name, r.explain(p.UID))
						}
					}
					return nil
				}
				h.setFullWhile(func() bool { return left() != nil })
				<-time.After(time.Minute)
				r.set(good...)
				r.within(30*time.Second, "the data to go", left)
				r.within(2*time.Minute, "health", func() error { return r.engine.Healthy() })
				<-time.After(2 * time.Minute)
				for _, p := range good {
					if h.rt.Running(p.UID, "main") != 1 || starts(h.rt, p.UID) != 1 {
						t.Errorf("%s was disturbed", p.Name)
					}
				}
				for _, p := range all[:bad] {
					if !r.sink.finished(p.UID) {
						t.Errorf("the end of %s was not told", p.Name)
					}
					if h.records()[p.UID] != nil {
						t.Errorf("the record of %s stays", p.Name)
					}
				}
				if otel.get("podwright_checkpoint_outrun_total", "") == 0 {
					t.Error("that records were not waited for is not counted")
				}
			})
		})
	}
}
