package enginetest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
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

// TestFullDiskHealsItself: IN4. Pods fill the disk: no record can be written until everything in
// their emptyDirs is gone. When the pods are removed, their data goes even if their records cannot
// be written. All other pods continue to run, and in the end every record is written.
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

// crowdedDisk is a disk on which only the scratch files of pods take space.
type crowdedDisk struct {
	root string
	pods []*v1.Pod
	each uint64
}

func (d crowdedDisk) Node(ctx context.Context) (map[eviction.Signal]eviction.Observation, error) {
	left := uint64(1000)
	for _, p := range d.pods {
		used, _ := d.Pod(ctx, p, eviction.NodeFsAvailable)
		left -= min(left, used.Disk)
	}
	return map[eviction.Signal]eviction.Observation{eviction.NodeFsAvailable: {Available: left, Capacity: 1000}}, nil
}

func (d crowdedDisk) Pod(_ context.Context, p *v1.Pod, _ eviction.Signal) (eviction.Usage, error) {
	if _, err := os.Stat(scratchFile(d.root, p.UID)); err != nil {
		return eviction.Usage{}, nil
	}
	return eviction.Usage{Disk: d.each}, nil
}

// TestEvictionCountsWhatIsOnItsWay: IN4. Removed pods fill the disk to the last byte while they
// stop. No other pod is evicted for that, and all their data goes.
func TestEvictionCountsWhatIsOnItsWay(t *testing.T) {
	const good, bad = 5, 3
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, byContainer(map[string]fake.Script{"deaf": {IgnoreTERM: true}}))
		var stay, leave []*v1.Pod
		for i := range good {
			stay = append(stay, withScratch(newPod(fmt.Sprintf("good-%d", i))))
		}
		for i := range bad {
			p := withScratch(newPod(fmt.Sprintf("bad-%d", i), "deaf"))
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](25)
			leave = append(leave, p)
		}
		disk := crowdedDisk{root: h.root, pods: leave, each: 400}
		r := h.agent(func(c *podwright.Config) {
			c.Eviction = &podwright.Eviction{Stats: disk, Policy: eviction.Policy{
				Thresholds: []eviction.Threshold{{Signal: eviction.NodeFsAvailable, Value: eviction.Value{Quantity: 100}}},
			}}
		})
		r.set(slices.Concat(stay, leave)...)
		for _, p := range slices.Concat(stay, leave) {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		r.set(stay...)
		synctest.Wait()
		for _, p := range leave {
			if err := os.WriteFile(scratchFile(h.root, p.UID), []byte("much"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h.setFullWhile(func() bool {
			seen, _ := disk.Node(t.Context())
			return seen[eviction.NodeFsAvailable].Available == 0
		})
		<-time.After(5 * time.Minute)
		evicted := 0
		for _, p := range stay {
			if h.rt.Running(p.UID, "main") != 1 || r.pod(p.UID).Status.Phase != v1.PodRunning {
				evicted++
			}
		}
		if evicted > 0 {
			t.Errorf("%d of %d good pods are evicted", evicted, good)
		}
		for _, p := range leave {
			if _, err := os.Stat(scratchFile(h.root, p.UID)); err == nil {
				t.Errorf("%s has data on the disk, %s", p.Name, r.explain(p.UID))
			}
		}
		if err := r.engine.Healthy(); err != nil {
			t.Error(err)
		}
	})
}
