package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
	"github.com/podwright/podwright/syncloop/source"
)

// scarce is a node whose free memory is what its pods do not use.
type scarce struct {
	mu   sync.Mutex
	used map[types.UID]uint64
	rig  *rig
}

func (s *scarce) Node(context.Context) (map[eviction.Signal]eviction.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := uint64(1000)
	for uid, n := range s.used {
		if p := s.rig.pod(uid); p != nil && p.Status.Phase == v1.PodRunning {
			left -= n
		}
	}
	return map[eviction.Signal]eviction.Observation{eviction.MemoryAvailable: {Available: left, Capacity: 1000}}, nil
}

func (s *scarce) Pod(_ context.Context, pod *v1.Pod, _ eviction.Signal) (eviction.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return eviction.Usage{Memory: s.used[pod.UID]}, nil
}

func (s *scarce) use(uid types.UID, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[uid] = n
}

func withRequest(p *v1.Pod, memory string) *v1.Pod {
	list := v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory), v1.ResourceCPU: resource.MustParse("1")}
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	return p
}

func disrupted(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget {
			return c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
		}
	}
	return false
}

// TestGreedyPodIsEvictedForGood: section 16, eviction: the pod that uses more than it requested is
// evicted, is Failed for the reason Evicted with the condition DisruptionTarget, and stays Failed
// over a restart of the agent, because it is a pod of an API. The others are not touched.
func TestGreedyPodIsEvictedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root, api := fake.New(fake.Options{}), t.TempDir(), &mirror.FakeClient{}
		node := &scarce{used: map[types.UID]uint64{}}
		evict := func(c *podwright.Config) {
			c.Sources = []syncloop.Source{apiSource{api: api}}
			c.Eviction = &podwright.Eviction{Stats: node, Policy: eviction.Policy{
				Thresholds: []eviction.Threshold{{Signal: eviction.MemoryAvailable, Value: eviction.Value{Quantity: 100}}}, Transition: time.Minute,
			}}
		}
		r := newRig(t, rt, root, evict)
		node.rig = r
		r.start()
		hog, quiet := newPod("hog"), withRequest(newPod("quiet"), "500")
		api.Put(hog)
		api.Put(quiet)
		r.phase(hog.UID, v1.PodRunning, time.Minute)
		r.phase(quiet.UID, v1.PodRunning, time.Minute)
		node.use(quiet.UID, 450)
		node.use(hog.UID, 500)
		r.phase(hog.UID, v1.PodFailed, 15*time.Second)
		p := r.pod(hog.UID)
		if p.Status.Reason != "Evicted" || !strings.Contains(p.Status.Message, "low on resource: memory") || !disrupted(p) {
			t.Errorf("status %+v", p.Status)
		}
		if r.events.count("hog Evicted") != 1 {
			t.Error("no event Evicted")
		}
		if c := r.engine.NodeConditions(); len(c) != 4 || c[0].Type != v1.NodeMemoryPressure || c[0].Status != v1.ConditionTrue || c[3].Type != v1.NodeReady {
			t.Errorf("conditions %+v", c)
		}
		phases, _ := r.sink.of(hog.UID)
		r.within(2*time.Minute, "no pressure", func() error {
			if c := r.engine.NodeConditions(); c[0].Status == v1.ConditionTrue {
				return errors.New(c[0].Message)
			}
			return nil
		})
		if q := r.pod(quiet.UID); q.Status.Phase != v1.PodRunning || q.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the other pod: %+v", q.Status)
		}
		if got := fmt.Sprint(phases); !strings.HasSuffix(got, "Running Failed]") {
			t.Errorf("phases %s", got)
		}
		if left := r.records(hog); len(left) != 0 {
			t.Errorf("syncloop.md edge case 29: the evicted pod has containers: %v", left)
		}
		if c := r.pod(hog.UID).Status.ContainerStatuses; len(c) != 1 || c[0].State.Terminated == nil || c[0].State.Terminated.Reason != "Completed" {
			t.Errorf("how its container ended is lost: %+v", c)
		}
		r.stop()

		again := newRig(t, rt, root, evict)
		node.rig = again
		again.start()
		again.phase(quiet.UID, v1.PodRunning, time.Minute)
		<-time.After(2 * time.Minute)
		if p := again.pod(hog.UID); p.Status.Phase != v1.PodFailed || p.Status.Reason != "Evicted" {
			t.Errorf("after a restart: %+v", p.Status)
		}
	})
}

// TestFullEmptyDirEvictsItsPod: section 16, eviction: an emptyDir grows over its limit.
func TestFullEmptyDirEvictsItsPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := &scarce{used: map[types.UID]uint64{}}
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			c.Eviction = &podwright.Eviction{Stats: node, Policy: eviction.Policy{Thresholds: []eviction.Threshold{}}}
		})
		node.rig = r
		r.start()
		limit := resource.MustParse("1Mi")
		pod := newPod("writer")
		pod.Spec.Volumes = []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		<-time.After(2 * time.Minute)
		if p := r.pod(pod.UID); p.Status.Phase != v1.PodRunning {
			t.Fatalf("an empty volume: %+v", p.Status)
		}
		found, err := filepath.Glob(filepath.Join(r.root, "pods", string(pod.UID), "volumes", "*", "cache"))
		if err != nil || len(found) != 1 {
			t.Fatalf("volumes %v, %v", found, err)
		}
		if err := os.WriteFile(filepath.Join(found[0], "data"), make([]byte, 2<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		r.phase(pod.UID, v1.PodFailed, 90*time.Second)
		if p := r.pod(pod.UID); p.Status.Reason != "Evicted" || !strings.Contains(p.Status.Message, `EmptyDir volume "cache" exceeds the limit "1Mi"`) {
			t.Errorf("status %+v", p.Status)
		}
	})
}

// TestBadThresholdIsRefused: New reports invalid thresholds.
func TestBadThresholdIsRefused(t *testing.T) {
	rt := fake.New(fake.Options{})
	_, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{source.NewChannel(source.ChannelOptions{})}, RootDir: t.TempDir(), Node: podwright.Node{Name: "n1"},
		Eviction: &podwright.Eviction{Policy: eviction.Policy{Thresholds: []eviction.Threshold{{Signal: "x"}}}},
	})
	if err == nil || !strings.Contains(err.Error(), `Eviction: eviction: threshold 0: no such signal "x"`) {
		t.Errorf("error %v", err)
	}
}
