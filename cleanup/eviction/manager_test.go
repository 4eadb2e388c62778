package eviction

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/timing"
)

// node is a machine in memory, with the hooks of a manager. Like a real one, it takes a moment for each call.
type node struct {
	mu       sync.Mutex
	begin    time.Time
	readings map[Signal]Observation
	pods     []*v1.Pod
	leaving  []*v1.Pod
	usage    map[types.UID]Usage
	volumes  map[types.UID][]Volume
	storage  map[types.UID]Storage
	// storageErr is returned together with the storage that was read.
	storageErr error
	localOnly  bool
	log        []string
	// frees is what an evicted pod, and a reclaim, give back.
	frees, reclaims uint64
	// holds is how long an evicted pod holds something.
	holds    time.Duration
	released time.Time
	err      error
	panics   bool
	// kill, if set, is how long Kill takes to stop a pod; the pod is being stopped from then on.
	kill    func(p *v1.Pod, grace *int64) time.Duration
	killErr error
	// reclaim, if set, is called by Reclaim first.
	reclaim func(ctx context.Context)
	// silent: what pods use cannot be read; hangs: nor what they have on the disk.
	silent, hangs bool
	// machine, uses and limited, if set, answer Node, Pod and Volumes; refuses is asked before a kill.
	machine func(ctx context.Context) (map[Signal]Observation, error)
	uses    func(ctx context.Context, p *v1.Pod) (Usage, error)
	limited func(p *v1.Pod) []Volume
	refuses func(p *v1.Pod, grace *int64) error
	// stores, if set, is called by Storage first.
	stores func()
	// complete, if set, says whether every pod is known.
	complete func() bool
	logger   logr.Logger
}

// moment is how long each call takes.
func moment() { <-time.After(time.Millisecond) }

func (n *node) Node(ctx context.Context) (map[Signal]Observation, error) {
	moment()
	if n.machine != nil {
		return n.machine(ctx)
	}
	return n.read()
}

func (n *node) read() (map[Signal]Observation, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.panics {
		panic("stats")
	}
	out := map[Signal]Observation{}
	for s, o := range n.readings {
		out[s] = o
	}
	return out, n.err
}

func (n *node) Pod(ctx context.Context, p *v1.Pod, _ Signal) (Usage, error) {
	moment()
	if n.silent {
		return Usage{}, hang(ctx)
	}
	if n.uses != nil {
		return n.uses(ctx, p)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.usage[p.UID], nil
}

// Kill gives up when its time is over, and the pod goes on being stopped, as it does in an engine.
func (n *node) Kill(ctx context.Context, p *v1.Pod, grace *int64, amend func(*v1.PodStatus)) error {
	moment()
	if n.refuses != nil {
		if err := n.refuses(p, grace); err != nil {
			return err
		}
	}
	n.stop(p, grace, amend)
	if n.kill == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(n.kill(p, grace)):
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaving = slices.DeleteFunc(n.leaving, func(q *v1.Pod) bool { return q.UID == p.UID })
	n.give(n.usage[p.UID].Memory)
	return n.killErr
}

func (n *node) stop(p *v1.Pod, grace *int64, amend func(*v1.PodStatus)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var s v1.PodStatus
	amend(&s)
	amend(&s) // any number of times
	text := "own"
	if grace != nil {
		text = fmt.Sprint(*grace)
	}
	words := fmt.Sprintf("kill %s grace %s: %s %s", p.Name, text, s.Phase, s.Reason)
	for _, c := range s.Conditions {
		words += " " + string(c.Type)
	}
	n.note("%s", words)
	for i, q := range n.pods {
		if q.UID == p.UID {
			n.pods = append(n.pods[:i:i], n.pods[i+1:]...)
			if n.kill != nil {
				n.leaving = append(n.leaving[:len(n.leaving):len(n.leaving)], p)
			}
		}
	}
	n.give(n.frees)
	n.released = time.Now().Add(n.holds)
}

// hang is a call of a runtime that does not answer.
func hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(2 * time.Minute):
		return context.DeadlineExceeded
	}
}

func (n *node) give(amount uint64) {
	for s, o := range n.readings {
		o.Available += amount
		n.readings[s] = o
	}
}

func (n *node) Finished(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	stopping := slices.ContainsFunc(n.leaving, func(p *v1.Pod) bool { return p.UID == uid })
	return !stopping && !time.Now().Before(n.released)
}

func (n *node) Eventf(object apiruntime.Object, kind, reason, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := "node"
	if p, ok := object.(*v1.Pod); ok {
		name = p.Name
	}
	n.note("event %s %s %s: %s", name, kind, reason, fmt.Sprintf(format, args...))
}

func (n *node) note(format string, args ...any) {
	n.log = append(n.log, fmt.Sprintf("%ds ", int(time.Since(n.begin).Seconds()))+fmt.Sprintf(format, args...))
}

// at calls f, with the lock, after a time.
func (n *node) at(d time.Duration, f func()) {
	time.AfterFunc(d, func() { n.mu.Lock(); defer n.mu.Unlock(); f() })
}

// run runs a manager for a time and returns what happened.
func (n *node) run(t *testing.T, d time.Duration, policy Policy) (*Manager, string) {
	t.Helper()
	n.begin = time.Now()
	m, err := New(Options{
		Stats: n, Killer: n, Policy: policy, Recorder: n, NodeName: "n1", Logger: n.logger,
		Pods: func() []*v1.Pod {
			n.mu.Lock()
			defer n.mu.Unlock()
			return append([]*v1.Pod(nil), n.pods...)
		},
		Leaving: func() []*v1.Pod {
			n.mu.Lock()
			defer n.mu.Unlock()
			return append([]*v1.Pod(nil), n.leaving...)
		},
		Complete: n.complete,
		Volumes: func(p *v1.Pod) []Volume {
			if n.limited != nil {
				return n.limited(p)
			}
			return n.volumes[p.UID]
		},
		LocalOnly: n.localOnly,
		Storage: func(ctx context.Context, p *v1.Pod) (Storage, error) {
			moment()
			if n.hangs {
				return Storage{}, hang(ctx)
			}
			if n.stores != nil {
				n.stores()
			}
			return n.storage[p.UID], n.storageErr
		},
		Reclaim: func(ctx context.Context) error {
			moment()
			if n.reclaim != nil {
				n.reclaim(ctx)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.note("reclaim")
			n.give(n.reclaims)
			return nil
		},
		Changed: func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.note("conditions changed")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := m.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return m, strings.Join(n.log, "\n")
}

func reading(signal Signal, available uint64) map[Signal]Observation {
	return map[Signal]Observation{signal: {Available: available, Capacity: 1000}}
}

func expect(t *testing.T, got string, want ...string) {
	t.Helper()
	if got != strings.Join(want, "\n") {
		t.Errorf("happened:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// TestHardLimit: section 16, eviction: at most one pod per pass, grace 1 s, the next
// pass when the pod has released everything; a critical pod is never evicted.
func TestHardLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{
			readings: reading(MemoryAvailable, 10), frees: 50, holds: 5 * time.Second,
			pods:  []*v1.Pod{pod("critical", withPriority(2_000_000_000)), pod("small"), pod("hog", withGrace(600))},
			usage: map[types.UID]Usage{"critical": {Memory: 900}, "small": {Memory: 10}, "hog": {Memory: 90}},
		}
		m, got := n.run(t, 9*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
		expect(t, got,
			"0s conditions changed",
			"0s event node Warning EvictionThresholdMet: Attempting to reclaim memory",
			"0s event hog Warning Evicted: The node was low on resource: memory. Threshold quantity: 100, available: 10. The pod was using 90, its request is 0.",
			"0s kill hog grace 1: Failed Evicted DisruptionTarget",
			"5s event node Warning EvictionThresholdMet: Attempting to reclaim memory",
			"5s event small Warning Evicted: The node was low on resource: memory. Threshold quantity: 100, available: 60. The pod was using 10, its request is 0.",
			"5s kill small grace 1: Failed Evicted DisruptionTarget")
		if ok, _ := m.Admit(pod("new")); ok || len(m.Pressure()) != 1 || m.Conditions()[0].Status != v1.ConditionTrue {
			t.Errorf("a BestEffort pod is admitted: %v, conditions %+v", ok, m.Conditions())
		}
	})
}

// TestCriticalPodsStay: section 16: only critical pods are left.
func TestCriticalPodsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := pod("finished")
		finished.Status.Phase = v1.PodFailed
		n := &node{readings: reading(MemoryAvailable, 10), pods: []*v1.Pod{pod("critical", withPriority(2_000_000_000)), finished}}
		_, got := n.run(t, 15*time.Second, Policy{})
		if strings.Contains(got, "kill") || strings.Count(got, "EvictionThresholdMet") != 2 {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestLastingPressureIsToldRarely: runtime.md 22. A node with only critical pods that is low for a day reports it at counts 1, 2, 4, 8...
// and every 30 min. Once that has taken a pod, what follows is news.
func TestLastingPressureIsToldRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(MemoryAvailable, 10), pods: []*v1.Pod{pod("critical", withPriority(2_000_000_000))}}
		const day = 24 * time.Hour
		n.at(day+time.Second, func() {
			n.note("a day later")
			n.pods = append(n.pods, pod("a"), pod("b"))
		})
		_, got := n.run(t, day+15*time.Second, Policy{})
		before, after, _ := strings.Cut(got, "a day later")
		if told := strings.Count(before, "EvictionThresholdMet"); told < 48 || told > 66 {
			t.Errorf("told %d times in a day", told)
		}
		if killed, told := strings.Count(after, "kill"), strings.Count(after, "EvictionThresholdMet"); killed != 2 || told < 2 || told > 4 {
			t.Errorf("happened:\n%s", after)
		}
	})
}

// TestSoftLimit: section 16: a soft limit gives min(configured max, spec).
func TestSoftLimit(t *testing.T) {
	for _, test := range []struct {
		name string
		own  []func(*v1.Pod)
		max  time.Duration
		want string
	}{
		{"the pod's is shorter", []func(*v1.Pod){withGrace(5)}, time.Minute, "own"},
		{"the limit is shorter", []func(*v1.Pod){withGrace(600)}, 1500 * time.Millisecond, "2"},
		{"the pod has none", nil, time.Minute, "60"},
		{"no limit", []func(*v1.Pod){withGrace(600)}, 0, "own"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: reading(MemoryAvailable, 10), frees: 500, pods: []*v1.Pod{pod("hog", test.own...)}}
				_, got := n.run(t, 25*time.Second, Policy{
					MaxPodGrace: test.max,
					Thresholds:  thresholds(t, Text{Soft: "memory.available<100", SoftGrace: "memory.available=15s"}),
				})
				if !strings.Contains(got, "20s kill hog grace "+test.want+":") {
					t.Errorf("happened:\n%s", got)
				}
			})
		})
	}
}

// TestReclaimFirst: section 16: what is not needed is removed before a pod is evicted, and only for
// disks.
func TestReclaimFirst(t *testing.T) {
	for _, test := range []struct {
		name     string
		signal   Signal
		reclaims uint64
		want     []string
	}{
		{"enough", NodeFsAvailable, 500, []string{"reclaim"}},
		{"not enough", NodeFsInodesFree, 5, []string{"reclaim", "kill"}},
		{"memory", MemoryAvailable, 500, []string{"kill"}},
		{"process IDs", PIDAvailable, 500, []string{"kill"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: reading(test.signal, 10), frees: 500, reclaims: test.reclaims, pods: []*v1.Pod{pod("a")}}
				n.run(t, time.Second, Policy{Thresholds: thresholds(t, Text{Hard: string(test.signal) + "<100"})})
				var acts []string
				for _, line := range n.log {
					if f := strings.Fields(line); f[1] == "reclaim" || f[1] == "kill" {
						acts = append(acts, f[1])
					}
				}
				if fmt.Sprint(acts) != fmt.Sprint(test.want) {
					t.Errorf("did %v, want %v", acts, test.want)
				}
			})
		})
	}
}

// TestWaitIsBounded: section 16: a pod that never lets go holds the next pass up for
// 30 s.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(MemoryAvailable, 10), holds: time.Hour, pods: []*v1.Pod{pod("a"), pod("b")}}
		_, got := n.run(t, 45*time.Second, Policy{})
		if !strings.Contains(got, "0s kill a") || !strings.Contains(got, "30s kill b") {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestLocalVolumes: status.md 5.5. A pod with a volume over its limit is evicted, whatever the node has left. It is not the
// target of a disruption: it would do the same on another node.
func TestLocalVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
		missing := full + "/none"
		n := &node{
			readings: reading(MemoryAvailable, 900), pods: []*v1.Pod{pod("fits"), pod("fresh"), pod("over"), pod("odd")},
			volumes: map[types.UID][]Volume{
				"fits": {{Name: "cache", Path: full, Limit: 1 << 20}}, "fresh": {{Name: "cache", Path: missing, Limit: 1}},
				"over": {{Name: "cache", Path: full, Limit: 10 << 10}}, "odd": {{Name: "none", Path: full, Limit: 0}},
			},
		}
		_, got := n.run(t, 50*time.Second, Policy{Thresholds: []Threshold{}})
		expect(t, got,
			`0s event over Warning Evicted: Usage of EmptyDir volume "cache" exceeds the limit "10Ki".`,
			"0s kill over grace 1: Failed Evicted")
	})
}

// TestSurvives: section 16, last line: a panic of a hook ends a pass, not the manager,
// and a failed reading decides nothing.
func TestSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: map[Signal]Observation{}, err: errors.New("no cgroup"), panics: true, pods: []*v1.Pod{pod("a")}}
		n.at(15*time.Second, func() { n.panics = false })
		n.at(25*time.Second, func() { n.readings = reading(MemoryAvailable, 1) })
		_, got := n.run(t, 35*time.Second, Policy{})
		if strings.Count(got, "kill a") != 1 || !strings.Contains(got, "30s kill a") {
			t.Errorf("happened:\n%s", got)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Options{Policy: Policy{MaxPodGrace: -1, Thresholds: []Threshold{
		{Signal: "x"}, {Signal: PIDAvailable, Value: Value{Percent: 101}, Grace: -1},
	}}})
	for _, want := range []string{"required", "MaxPodGrace", `no such signal "x"`, "101", "Grace is negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

// limitedPod has containers with limits of ephemeral storage, "" for none.
func limitedPod(name string, limits ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	for i, limit := range limits {
		c := v1.Container{Name: fmt.Sprint("c", i)}
		if limit != "" {
			c.Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(limit)}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// TestStorageLimitsEvict: FD2. A pod above the limits of its containers together, or with a container
// above its own, is evicted with the kubelet's words; also where the node is not watched. It is not the target of a
// disruption (status.md 5.5).
func TestStorageLimitsEvict(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "data"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	critical := limitedPod("critical", "1")
	critical.Spec.PriorityClassName = "system-node-critical"
	for name, test := range map[string]struct {
		pod  *v1.Pod
		used Storage
		err  error
		want string
	}{
		"container":                {limitedPod("p", "1Ki", "10Mi"), Storage{Containers: map[string]uint64{"c0": 1025}}, nil, `Container c0 exceeded its local ephemeral storage limit "1Ki".`},
		"at its limit":             {limitedPod("p", "1Ki"), Storage{Containers: map[string]uint64{"c0": 1024}}, nil, ""},
		"pod":                      {limitedPod("p", "1Ki", "1Ki"), Storage{Containers: map[string]uint64{"c0": 1024, "c1": 1024, "": 1}}, nil, "Pod ephemeral local storage usage exceeds the total limit of containers 2Ki."},
		"emptyDir counts":          {limitedPod("p", "60Ki"), Storage{Folders: []string{folder}}, nil, "Pod ephemeral local storage usage exceeds the total limit of containers 60Ki."},
		"one container's limit":    {limitedPod("p", "1Ki", ""), Storage{Containers: map[string]uint64{"c1": 2000}}, nil, "Pod ephemeral local storage usage exceeds the total limit of containers 1Ki."},
		"no limit":                 {limitedPod("p", ""), Storage{Containers: map[string]uint64{"c0": 1 << 40}, Folders: []string{folder}}, nil, ""},
		"limit of 0":               {limitedPod("p", "0"), Storage{Containers: map[string]uint64{"c0": 1 << 40}}, nil, ""},
		"beside an error":          {limitedPod("p", "1Ki"), Storage{Containers: map[string]uint64{"c0": 4096}}, errors.New("half read"), "Pod ephemeral local storage usage exceeds the total limit of containers 1Ki."},
		"a critical pod is spared": {critical, Storage{Containers: map[string]uint64{"c0": 4096}}, nil, ""},
	} {
		for _, localOnly := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, local only %v", name, localOnly), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := &node{pods: []*v1.Pod{test.pod}, storage: map[types.UID]Storage{test.pod.UID: test.used}, storageErr: test.err, localOnly: localOnly}
					m, log := n.run(t, 2*time.Minute, Policy{})
					if (test.want == "") != (log == "") || !strings.Contains(log, test.want) || test.want != "" && !strings.HasSuffix(log, "grace 1: Failed Evicted") {
						t.Errorf("want %q:\n%s", test.want, log)
					}
					if localOnly && len(m.Conditions()) > 0 {
						t.Errorf("conditions %v of a node that is not watched", m.Conditions())
					}
				})
			})
		}
	}
}

// TestLocalLimitsDoNotStarveTheNode: section 16, eviction: many pods above their own limits, each
// slow to release what it held, delay the eviction that the node needs by one pod at most.
func TestLocalLimitsDoNotStarveTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
		n := &node{
			readings: reading(MemoryAvailable, 10), holds: 20 * time.Second,
			pods:  []*v1.Pod{pod("hog")},
			usage: map[types.UID]Usage{"hog": {Memory: 900}}, volumes: map[types.UID][]Volume{},
		}
		for i := range 100 {
			p := pod(fmt.Sprintf("over%d", i))
			n.pods = append(n.pods, p)
			n.volumes[p.UID] = []Volume{{Name: "cache", Path: full, Limit: 10 << 10}}
		}
		_, got := n.run(t, time.Minute, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
		if !strings.Contains(got, "kill hog") {
			t.Errorf("the node was short of memory for a minute, and no pod went for it:\n%s", got)
		}
		if !strings.Contains(got, "kill over0") {
			t.Errorf("no pod above its own limit went:\n%s", got)
		}
	})
}

// TestReclaimHoldsUpOnlyDisks: section 16: a reclaim that takes long runs beside the passes. A limit of a disk waits
// for it, a minute at most; memory does not.
func TestReclaimHoldsUpOnlyDisks(t *testing.T) {
	for _, test := range []struct {
		name   string
		takes  time.Duration
		memory bool // it is low after 25 s
		want   string
	}{
		{"soon over", 5 * time.Second, false, "11s kill full"},
		{"slow", 35 * time.Second, false, "41s kill full"},
		{"hangs", time.Hour, false, "61s kill full"},
		{"hangs, and memory is low", time.Hour, true, "31s kill hungry"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: reading(NodeFsAvailable, 10), frees: 100, pods: []*v1.Pod{pod("full"), pod("hungry")}}
				n.usage = map[types.UID]Usage{"full": {Disk: 900}, "hungry": {Memory: 900}}
				n.reclaim = func(ctx context.Context) {
					select {
					case <-time.After(test.takes):
					case <-ctx.Done():
					}
				}
				if test.memory {
					n.at(25*time.Second, func() {
						n.readings[MemoryAvailable] = Observation{Available: 1, Capacity: 1000}
					})
				}
				_, got := n.run(t, 65*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100,nodefs.available<100"})})
				if !strings.Contains(got, test.want) || strings.Count(got, " kill ") != 1 {
					t.Errorf("want only %s, happened:\n%s", test.want, got)
				}
			})
		})
	}
}

// TestEachEvictionForADiskComesAfterAReclaim: section 16.
func TestEachEvictionForADiskComesAfterAReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(NodeFsAvailable, 10), pods: []*v1.Pod{pod("a"), pod("b")}, reclaim: func(context.Context) { <-time.After(5 * time.Second) }}
		n.run(t, 30*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
		var acts []string
		for _, line := range n.log {
			if f := strings.Fields(line); f[1] == "reclaim" || f[1] == "kill" {
				acts = append(acts, f[1])
			}
		}
		if got := strings.Join(acts, " "); !strings.HasPrefix(got, "reclaim kill reclaim kill reclaim") {
			t.Errorf("did %s", got)
		}
	})
}

// TestSoftKillDoesNotHoldUpHardLimits: section 16: a pass waits 30 s at most for a pod that a soft limit evicts,
// whatever its grace; once a hard limit is due, the pod has to stop at once.
func TestSoftKillDoesNotHoldUpHardLimits(t *testing.T) {
	for _, test := range []struct {
		name   string
		signal Signal // with the hard limit
		uses   uint64 // what the stubborn pod uses of memory
		want   []string
	}{
		{"its memory is enough", MemoryAvailable, 500, []string{"30s kill stubborn grace own", "60s kill stubborn grace 1"}},
		{"its memory is not enough", MemoryAvailable, 50, []string{"30s kill stubborn grace own", "60s kill stubborn grace 1", "61s kill hog grace 1"}},
		{"another signal", PIDAvailable, 50, []string{"30s kill stubborn grace own", "60s kill stubborn grace 1", "61s kill hog grace 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: map[Signal]Observation{MemoryAvailable: {Available: 150, Capacity: 1000}, PIDAvailable: {Available: 900, Capacity: 1000}}}
				n.pods = []*v1.Pod{pod("stubborn", withGrace(10_000_000_000), withPriority(-1)), pod("hog", withGrace(30))}
				n.usage = map[types.UID]Usage{"stubborn": {Memory: test.uses}, "hog": {Memory: 300, PIDs: 5}}
				n.kill = func(p *v1.Pod, grace *int64) time.Duration {
					if grace != nil {
						return time.Duration(*grace) * time.Second
					}
					return timing.Seconds(*p.Spec.TerminationGracePeriodSeconds)
				}
				n.at(45*time.Second, func() {
					n.readings[test.signal] = Observation{Available: 1, Capacity: 1000}
				})
				_, got := n.run(t, 64*time.Second, Policy{
					Thresholds: thresholds(t, Text{Hard: string(test.signal) + "<100", Soft: "memory.available<200", SoftGrace: "memory.available=30s"}),
				})
				var kills []string
				for line := range strings.Lines(got) {
					if kill, _, ok := strings.Cut(line, ":"); ok && strings.Contains(kill, " kill ") {
						kills = append(kills, kill)
					}
				}
				if !slices.Equal(kills, test.want) {
					t.Errorf("kills %q, want %q; happened:\n%s", kills, test.want, got)
				}
			})
		})
	}
}

// TestHangingReadingsDoNotHoldUpEviction: section 16: what pods use has 10 s in a pass, and what cannot be read counts as
// nothing; their own limits hold up neither the node's nor each other's.
func TestHangingReadingsDoNotHoldUpEviction(t *testing.T) {
	for _, test := range []struct {
		name          string
		silent, hangs bool
		latest        time.Duration
	}{
		{"usage", true, false, 10 * time.Second}, {"storage", false, true, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
				n := &node{readings: reading(MemoryAvailable, 10), silent: test.silent, hangs: test.hangs, holds: 5 * time.Second}
				n.readings[PIDAvailable] = Observation{Available: 10, Capacity: 1000}
				for i := range 100 {
					p := pod(fmt.Sprintf("p%02d", i))
					p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Gi")}}}}
					n.pods, n.leaving = append(n.pods, p), append(n.leaving, pod(fmt.Sprint("leaver", i)))
				}
				n.pods = append(n.pods, pod("over"))
				n.volumes = map[types.UID][]Volume{"over": {{Name: "cache", Path: full, Limit: 10 << 10}}}
				if !test.hangs {
					n.volumes = nil
				}
				_, got := n.run(t, 30*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100,pid.available<100"})})
				first := strings.Index(got, " kill ")
				if first < 0 {
					t.Fatalf("no pod was evicted:\n%s", got)
				}
				at := got[strings.LastIndex(got[:first], "\n")+1 : first]
				if took, err := time.ParseDuration(at); err != nil || took > test.latest {
					t.Errorf("the first eviction came after %s:\n%s", at, got)
				}
				if test.hangs && !strings.Contains(got, "kill over") {
					t.Errorf("the pod with a full volume stays:\n%s", got)
				}
			})
		})
	}
}

// TestUnreadSignalDoesNotShortenTheWait: section 16: what an evicted pod holds is waited for, although another signal
// cannot be read, or the kill took too long; after a kill that failed at once, the next pass comes after 10 s.
func TestUnreadSignalDoesNotShortenTheWait(t *testing.T) {
	failed := errors.New("failed")
	for _, test := range []struct {
		name   string
		unread error
		kill   error
		takes  time.Duration // until the kill fails
		second string        // when the next pod goes
	}{
		{"an unread signal", failed, nil, 0, "25s kill"}, {"a kill that took long", nil, failed, 10 * time.Second, "25s kill"}, {"a kill that failed at once", nil, failed, 0, "10s kill"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{readings: reading(MemoryAvailable, 10), err: test.unread, holds: 25 * time.Second, pods: []*v1.Pod{pod("a"), pod("b")}}
				if test.kill != nil {
					n.kill = func(*v1.Pod, *int64) time.Duration { return test.takes }
				}
				n.killErr = test.kill
				_, got := n.run(t, 30*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
				if strings.Count(got, " kill ") != 2 || !strings.Contains(got, test.second) {
					t.Errorf("want the second one after %q:\n%s", test.second, got)
				}
			})
		})
	}
}

// TestUsageOfManyPodsIsReadInTime: section 16: however many pods there are and whatever each of them takes, as long as it
// is less than the time for all, none goes unread.
func TestUsageOfManyPodsIsReadInTime(t *testing.T) {
	for _, takes := range []time.Duration{20 * time.Millisecond, timing.Patience - time.Millisecond, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{readings: reading(MemoryAvailable, 10), frees: 900}
			for i := range 500 {
				n.pods = append(n.pods, pod(fmt.Sprint("innocent", i)))
			}
			n.pods = append(n.pods, pod("zhog"))
			n.uses = func(_ context.Context, p *v1.Pod) (Usage, error) {
				<-time.After(takes)
				if p.Name == "zhog" {
					return Usage{Memory: 900}, nil
				}
				return Usage{}, nil
			}
			_, got := n.run(t, 15*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
			if !strings.Contains(got, "kill zhog") || strings.Count(got, " kill ") != 1 {
				t.Errorf("readings that take %v:\n%s", takes, got)
			}
		})
	}
}

// TestPartlyReadUsageCounts: section 16: what a call has found when its time is over counts.
func TestPartlyReadUsageCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(NodeFsAvailable, 10), pods: []*v1.Pod{pod("innocent"), pod("large")}, frees: 900}
		n.uses = func(ctx context.Context, p *v1.Pod) (Usage, error) {
			if p.Name == "innocent" {
				return Usage{Disk: 5}, nil
			}
			<-ctx.Done()
			<-time.After(usageLate / 2)
			return Usage{Disk: 500}, ctx.Err()
		}
		_, got := n.run(t, 20*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
		if !strings.Contains(got, "kill large") || strings.Count(got, " kill ") != 1 {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestDiskThatIsLowAgainIsReclaimedFirst: section 16: a reclaim that was enough does not count for the next time.
func TestDiskThatIsLowAgainIsReclaimedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(NodeFsAvailable, 10), reclaims: 900, pods: []*v1.Pod{pod("a")}}
		n.at(5*time.Second, func() { n.readings = reading(NodeFsAvailable, 10) })
		_, got := n.run(t, 15*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
		if strings.Contains(got, "kill a") || strings.Count(got, "reclaim") != 2+strings.Count(got, "Attempting to reclaim") {
			t.Errorf("happened:\n%s", got)
		}
	})
}

// TestReclaimFails: a reclaim that panics is reported, and only while a disk is low; a pod goes for the disk.
func TestReclaimFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(NodeFsAvailable, 10), pods: []*v1.Pod{pod("a")}, frees: 5, reclaim: func(context.Context) { panic("no images") }}
		m, got := n.run(t, 15*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
		if !strings.Contains(got, "kill a") || !strings.Contains(m.lastError, "no images") || len(m.Problems()) != 1 {
			t.Errorf("error %q, problems %v:\n%s", m.lastError, m.Problems(), got)
		}
		if err := m.reclaimError(nil); err != nil {
			t.Errorf("no disk is low, and yet: %v", err)
		}
	})
}

// TestFailedLocalKillsDoNotStarveOthers: section 16: pods above their own limits that cannot be stopped keep neither the node's
// limits nor other pods' waiting.
func TestFailedLocalKillsDoNotStarveOthers(t *testing.T) {
	for name, test := range map[string]struct {
		localOnly bool
		want      string
	}{"the node": {false, "kill hog"}, "another pod": {true, "10s kill second"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
				n := &node{readings: reading(MemoryAvailable, 10), usage: map[types.UID]Usage{"hog": {Memory: 900}}, pods: []*v1.Pod{pod("hog")}, localOnly: test.localOnly}
				n.volumes = map[types.UID][]Volume{}
				names := []string{"over0", "second"}
				if !test.localOnly {
					names = strings.Fields("over0 over1 over2 over3 over4 over5 over6 over7")
				}
				for _, name := range names {
					n.pods = append(n.pods, pod(name))
					n.volumes[types.UID(name)] = []Volume{{Name: "cache", Path: full, Limit: 10 << 10}}
				}
				n.refuses = func(p *v1.Pod, _ *int64) error {
					if strings.HasPrefix(p.Name, "over") {
						return errors.New("busy")
					}
					return nil
				}
				_, got := n.run(t, 55*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
				if !strings.Contains(got, test.want) {
					t.Errorf("happened:\n%s", got)
				}
			})
		})
	}
}

// TestEvictedPodsAreForgotten: a manager does not grow with the pods that it has evicted.
func TestEvictedPodsAreForgotten(t *testing.T) {
	for _, localOnly := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
			n := &node{readings: reading(MemoryAvailable, 900), volumes: map[types.UID][]Volume{}, localOnly: localOnly}
			for i := range 20 {
				p := pod(fmt.Sprint("p", i))
				n.pods = append(n.pods, p)
				n.volumes[p.UID] = []Volume{{Name: "cache", Path: full, Limit: 10 << 10}}
			}
			if m, _ := n.run(t, 30*time.Minute, Policy{Thresholds: []Threshold{}}); len(m.victims) > 0 || len(n.pods) > 0 {
				t.Errorf("local only %v: %d victims, %d pods are left", localOnly, len(m.victims), len(n.pods))
			}
		})
	}
}

// TestNodeThatIsNotReadIsReported: section 16: a reading of the node that panics or hangs is a problem, makes conditions
// Unknown, and does not stop what does not depend on it.
func TestNodeThatIsNotReadIsReported(t *testing.T) {
	for _, mode := range []string{"panics", "hangs"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
				n := &node{readings: reading(NodeFsAvailable, 900), volumes: map[types.UID][]Volume{"over": {{Name: "cache", Path: full, Limit: 10 << 10}}}}
				n.at(10*time.Minute, func() { n.pods = []*v1.Pod{pod("over")} })
				over := make(chan struct{})
				n.machine = func(context.Context) (map[Signal]Observation, error) {
					switch {
					case time.Since(n.begin) < 30*time.Second:
						return n.read()
					case mode == "panics":
						panic("stats")
					}
					<-over
					return nil, errors.New("late")
				}
				time.AfterFunc(20*time.Minute+time.Second, func() { close(over) }) // Run waits 5 s for it
				m, got := n.run(t, 20*time.Minute, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100"})})
				if c := m.Conditions()[1]; c.Status != v1.ConditionUnknown || len(m.unreadProblems()) != 1 {
					t.Errorf("problems %v, condition %+v", m.Problems(), c)
				}
				if !strings.Contains(got, "kill over") {
					t.Errorf("a pod stays above its own limit:\n%s", got)
				}
			})
		})
	}
}

// TestRunWaitsForWhatItHasBegun: IN6. Nothing that the manager has called goes on after its end, if it ends within 5 s of its
// context; what does not is left and logged.
func TestRunWaitsForWhatItHasBegun(t *testing.T) {
	for late, want := range map[time.Duration]struct {
		wait time.Duration
		lost []string
	}{
		4 * time.Second: {4 * time.Second, nil},
		time.Hour:       {5*time.Second + usageLate, []string{"Eviction.Reclaim", "Eviction.Stats.Pod", "Eviction.Storage", "the measurement of a pod's own limits"}},
	} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const runs = 5 * time.Second
				n := &node{readings: reading(NodeFsAvailable, 10), pods: []*v1.Pod{limitedPod("a", "1"), pod("b")}}
				lost := map[string]bool{}
				n.logger = funcr.New(func(_, args string) {
					if _, name, ok := strings.Cut(args, `"call"="`); ok && strings.Contains(args, foreign.ErrDeaf.Error()) {
						lost[name[:strings.Index(name, `"`)]] = true
					}
				}, funcr.Options{})
				var begun, ended atomic.Int32
				work := func() {
					begun.Add(1)
					<-time.After(time.Until(n.begin.Add(runs + late)))
					ended.Add(1)
				}
				n.reclaim = func(context.Context) { work() }
				n.uses = func(context.Context, *v1.Pod) (Usage, error) { work(); return Usage{}, nil }
				n.stores = work
				n.limited = func(p *v1.Pod) []Volume {
					if p.Name == "b" {
						work()
					}
					return nil
				}
				n.readings[MemoryAvailable] = n.readings[NodeFsAvailable]
				n.run(t, runs, Policy{Thresholds: thresholds(t, Text{Hard: "nodefs.available<100,memory.available<100"})})
				if took := time.Since(n.begin) - runs; took != want.wait {
					t.Errorf("ended %v after its context", took)
				}
				synctest.Wait()
				if late < time.Minute && (begun.Load() != ended.Load() || begun.Load() < 4) {
					t.Errorf("%d calls, %d ended", begun.Load(), ended.Load())
				}
				if got := slices.Sorted(maps.Keys(lost)); !slices.Equal(got, want.lost) {
					t.Errorf("lost %q", got)
				}
				<-time.After(late)
			})
		})
	}
}
