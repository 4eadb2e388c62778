package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
	"github.com/podwright/podwright/syncloop/nodehooks"
	"github.com/podwright/podwright/syncloop/source"
)

// trouble is the misbehaviour of a function of the user.
type trouble struct {
	how  string
	well atomic.Bool
	hung chan struct{}
	// open counts the calls that hang right now, by subject; most is the maximum for one subject at
	// once.
	mu   sync.Mutex
	open map[string]int
	most int
}

// strike panics or hangs; it returns true if the function has to return nil or nonsense.
func (x *trouble) strike(about ...string) (garbage bool) {
	if x.well.Load() {
		return false
	}
	switch x.how {
	case "panic":
		panic("the user's code is broken")
	case "hang":
		what := strings.Join(about, " ")
		x.mu.Lock()
		x.open[what]++
		x.most = max(x.most, x.open[what])
		x.mu.Unlock()
		<-x.hung
		x.mu.Lock()
		x.open[what]--
		x.mu.Unlock()
		return false
	}
	return true
}

// isVictim reports whether the UID is that of the bad pod.
func isVictim(uid types.UID) bool { return uid == "uid-bad" }

// userVolumes handles the volumes called "mine".
type userVolumes struct {
	x     *trouble
	which string
}

func (v userVolumes) strike(method string, uid types.UID) bool {
	return method == v.which && isVictim(uid) && v.x.strike()
}

func (v userVolumes) Handles(pod *v1.Pod, volume *v1.Volume) bool {
	return !v.strike("Handles", pod.UID) && volume.Name == "mine"
}

func (v userVolumes) SetUp(_ context.Context, pod *v1.Pod, _ *v1.Volume) (pods.MountedVolume, error) {
	if v.strike("SetUp", pod.UID) {
		return pods.MountedVolume{}, nil
	}
	return pods.MountedVolume{HostPath: "/"}, nil
}

func (v userVolumes) TearDown(_ context.Context, uid types.UID) error {
	v.strike("TearDown", uid)
	return nil
}

func (v userVolumes) Mounted(_ context.Context, uid types.UID) ([]string, error) {
	v.strike("Mounted", uid)
	return nil, nil
}

// userObjects has every object.
type userObjects struct{ x *trouble }

func (o userObjects) GetConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if name == "bad" && o.x.strike() {
		return nil, nil
	}
	c := &v1.ConfigMap{Data: map[string]string{"key": "value"}}
	c.Namespace, c.Name = namespace, name
	return c, nil
}

func (o userObjects) GetSecret(context.Context, string, string) (*v1.Secret, error) {
	return nil, errors.New("no secrets")
}

// userProbe answers every probe.
type userProbe struct{ x *trouble }

func (p userProbe) Probe(_ context.Context, t probe.Target) (probe.Outcome, error) {
	if isVictim(t.Pod.UID) && p.x.strike() {
		return probe.Outcome{Result: 77}, nil
	}
	return probe.Outcome{Result: probe.Success}, nil
}

// userMirrors are an API for mirror pods.
type userMirrors struct {
	*mirror.FakeClient
	x *trouble
}

func (m userMirrors) Create(ctx context.Context, pod *v1.Pod) error {
	if pod.Name == "bad" {
		m.x.strike()
	}
	return m.FakeClient.Create(ctx, pod)
}

// userStats say how full the node is.
type userStats struct {
	calmNode
	x *trouble
}

func (s userStats) Node(ctx context.Context) (map[eviction.Signal]eviction.Observation, error) {
	if s.x.strike() {
		return nil, nil
	}
	return s.calmNode.Node(ctx)
}

// userServices know that there are no services.
type userServices struct{ x *trouble }

func (s userServices) Services(namespace string) ([]*v1.Service, bool) {
	if namespace == "bad" {
		s.x.strike()
	}
	return nil, true
}

// userClasses know every runtime class.
type userClasses struct{ x *trouble }

func (c userClasses) RuntimeClass(name string) (pods.RuntimeClass, error) {
	if name == "bad" {
		c.x.strike()
	}
	return pods.RuntimeClass{}, nil
}

// userSource delivers what the test's own source wants, and reports its health badly.
type userSource struct {
	*source.Channel
	x *trouble
}

func (s userSource) Health() syncloop.SourceHealth {
	s.x.strike()
	return syncloop.SourceHealth{}
}

// userCode is one place where the engine calls the user's code.
type userCode struct {
	name string
	// configure makes the engine call the code, for a pod with UID uid-bad or for all.
	configure func(c *podwright.Config, r *rig, x *trouble)
	// pod changes the pods so that the engine calls the code for them.
	pod func(p *v1.Pod)
	// named is part of the listed problem, empty if none is listed; late says that the engine calls
	// the code when the pod goes.
	named map[string]string
	late  bool
	// starts: the bad pod runs in spite of the trouble; ends: it is removed in spite of it.
	starts, ends map[string]bool
}

var all = map[string]bool{"panic": true, "hang": true, "nil": true}

func usersCode() []userCode {
	withVolume := func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "mine", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "mine", MountPath: "/m"}}
	}
	withMap := func(p *v1.Pod) {
		name := strings.Split(p.Name, "-")[0]
		p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}}
	}
	withProbe := func(p *v1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = &v1.Probe{
			PeriodSeconds: 5, TimeoutSeconds: 2,
			ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}},
		}
	}
	volumes := func(which string) func(*podwright.Config, *rig, *trouble) {
		return func(c *podwright.Config, _ *rig, x *trouble) { c.Pods.Volumes = userVolumes{x, which} }
	}
	same := func(text string) map[string]string { return map[string]string{"panic": text, "hang": text} }
	return []userCode{
		{
			name: "veto", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.Cleanup.Veto = func(a cleanup.Action) error {
					if isVictim(a.PodUID) {
						x.strike(a.Step.String(), a.Object.String())
					}
					return nil
				}
			}, named: same("Cleanup.Veto"), late: true, starts: all, ends: map[string]bool{"nil": true},
		},
		{
			name: "critical", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.Eviction = &podwright.Eviction{Stats: &calmNode{}, Critical: func(pod *v1.Pod) bool {
					if isVictim(pod.UID) {
						x.strike()
					}
					return false
				}}
			}, named: same("Eviction.Critical"), starts: all, ends: all,
		},
		{
			name: "node hook", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.NodeHooks = nodehooks.Hooks{
					RenewLease: func(context.Context, time.Duration) error { x.strike(); return nil },
					Rand:       func() float64 { return math.NaN() },
				}
			}, named: same("NodeHooks.RenewLease"), starts: all, ends: all,
		},
		{
			name: "hook of registration", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.NodeHooks = nodehooks.Hooks{Register: func(context.Context) error { x.strike(); return nil }}
			}, named: same("NodeHooks.Register"), starts: all, ends: all,
		},
		{
			name: "random number", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.NodeHooks = nodehooks.Hooks{
					PublishStatus: func(context.Context, nodehooks.Status) error { return nil },
					Rand: func() float64 {
						if x.strike() {
							return math.Inf(-1)
						}
						return 0.5
					},
				}
			}, named: same("NodeHooks.Rand"), starts: all, ends: all,
		},
		{name: "volume handled", configure: volumes("Handles"), pod: withVolume, named: same("Volumes.Handles"), starts: map[string]bool{"nil": true}, ends: all},
		{name: "volume set up", configure: volumes("SetUp"), pod: withVolume, named: same("Volumes.SetUp"), ends: map[string]bool{"panic": true, "nil": true}},
		{name: "volume torn down", configure: volumes("TearDown"), pod: withVolume, named: same("Volumes.TearDown"), late: true, starts: all, ends: map[string]bool{"nil": true}},
		{name: "volume mounted", configure: volumes("Mounted"), pod: withVolume, named: same("Volumes.Mounted"), late: true, starts: all, ends: map[string]bool{"nil": true}},
		{
			name: "object", configure: func(c *podwright.Config, _ *rig, x *trouble) { c.Pods.Objects = userObjects{x} }, pod: withMap,
			named: map[string]string{"panic": "GetConfigMap", "hang": "GetConfigMap", "nil": "an object or a path that it refers to"}, ends: all,
		},
		{
			name: "probe handler", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.Probes.Handler = func(probe.Target) probe.Handler { return userProbe{x} }
			}, pod: withProbe, named: map[string]string{"hang": "probe of container main"}, starts: all, ends: all,
		},
		{
			name: "choice of a probe handler", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.Probes.Handler = func(t probe.Target) probe.Handler {
					if isVictim(t.Pod.UID) && x.strike() {
						return nil // the package's own
					}
					return userProbe{x: &trouble{}}
				}
			}, pod: withProbe, named: map[string]string{"hang": "probe of container main"}, starts: all, ends: all,
		},
		{
			name: "probe timing", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.Probes.Handler = func(probe.Target) probe.Handler { return userProbe{x: &trouble{}} }
				c.Probes.Timing = func(pod *v1.Pod, _ string, _ probe.Kind, own probe.Timing) (probe.Timing, bool) {
					if isVictim(pod.UID) && x.strike() {
						return probe.Timing{InitialDelay: -1, Period: -1, Timeout: -1}, true
					}
					return own, false
				}
			}, pod: withProbe, named: same("Probes.Timing"), starts: all, ends: all,
		},
		{
			name: "sink", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.Observe.Sinks = append(c.Observe.Sinks, status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
					if isVictim(u.UID) && x.strike() {
						return 77, nil
					}
					return status.Stored, nil
				}))
			}, named: map[string]string{"panic": "take the statuses", "hang": "sink", "nil": "take the statuses"}, starts: all, ends: all,
		},
		{
			name: "mirror client", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node"}}
				c.Mirrors = mirror.Options{Client: userMirrors{&mirror.FakeClient{}, x}, Node: func() *v1.Node { return node }}
			}, named: same("Mirrors.Client.Create"), starts: all, ends: all,
		},
		{
			name: "node of the mirrors", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.Mirrors = mirror.Options{Client: &mirror.FakeClient{}, Node: func() *v1.Node { x.strike(); return nil }}
			}, named: same("Mirrors.Node"), starts: all, ends: all,
		},
		{
			name: "node's figures", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.Eviction = &podwright.Eviction{Stats: userStats{x: x}}
			}, named: same("Eviction.Stats.Node"), starts: all, ends: all,
		},
		{
			name: "services", configure: func(c *podwright.Config, _ *rig, x *trouble) { c.Pods.Services = userServices{x} },
			pod: func(p *v1.Pod) {
				if isVictim(p.UID) {
					p.Namespace = "bad"
				}
			}, named: same("Pods.Services"), starts: all, ends: all,
		},
		{
			name: "runtime class", configure: func(c *podwright.Config, _ *rig, x *trouble) { c.Pods.RuntimeClasses = userClasses{x} },
			pod: func(p *v1.Pod) {
				name := strings.Split(p.Name, "-")[0]
				p.Spec.RuntimeClassName = &name
			}, named: same("Pods.RuntimeClasses"), starts: map[string]bool{"nil": true}, ends: all,
		},
		{
			name: "ready sandbox", configure: func(c *podwright.Config, _ *rig, x *trouble) {
				c.Pods.SandboxReady = func(_ context.Context, uid types.UID, _ []string) {
					if isVictim(uid) {
						x.strike()
					}
				}
			}, named: same("Pods.SandboxReady"), starts: map[string]bool{"panic": true, "nil": true}, ends: all,
		},
		{
			name: "health of a source", configure: func(c *podwright.Config, r *rig, x *trouble) { c.Sources = []syncloop.Source{userSource{r.source, x}} },
			named: same(".Health"), starts: all, ends: all,
		},
	}
}

// calmNode has plenty of everything, and one pod above a limit of its volume.
type calmNode struct{}

func (calmNode) Node(context.Context) (map[eviction.Signal]eviction.Observation, error) {
	return map[eviction.Signal]eviction.Observation{eviction.MemoryAvailable: {Available: 1 << 40, Capacity: 1 << 40}}, nil
}

func (calmNode) Pod(context.Context, *v1.Pod, eviction.Signal) (eviction.Usage, error) {
	return eviction.Usage{}, nil
}

// TestUsersCodeIsContained: IN6. A function of the program that embeds the engine panics, hangs
// regardless of its context, or returns nil or nonsense, for one pod or for all. Twenty good pods
// run beside it, and end. The engine names the trouble while it lasts, and the bad pod continues
// once the function is well. At most one call for the pod hangs at a time.
func TestUsersCodeIsContained(t *testing.T) {
	t.Parallel()
	for _, code := range usersCode() {
		t.Run(strings.ReplaceAll(code.name, " ", "-"), func(t *testing.T) {
			for _, how := range []string{"panic", "hang", "nil"} {
				t.Run(how, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { containUsersCode(t, code, how) })
				})
			}
		})
	}
}

func containUsersCode(t *testing.T, code userCode, how string) {
	x := &trouble{how: how, hung: make(chan struct{}), open: map[string]int{}}
	own := &rig{source: source.NewChannel(source.ChannelOptions{NodeName: "n1"})}
	r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
		own.events = &events{}
		c.Sources = []syncloop.Source{own.source}
		code.configure(c, own, x)
	})
	r.source = own.source
	r.start()
	release := sync.OnceFunc(func() { x.well.Store(true); close(x.hung) })
	t.Cleanup(release) // before the engine is stopped
	var good []*v1.Pod
	for i := range 20 {
		good = append(good, newPod(fmt.Sprintf("web-%d", i)))
	}
	victim := newPod("bad")
	for _, p := range append(good, victim) {
		if code.pod != nil {
			code.pod(p)
		}
	}
	r.set(append(good, victim)...)
	for _, p := range good {
		r.phase(p.UID, v1.PodRunning, 5*time.Second)
	}
	if code.starts[how] {
		r.phase(victim.UID, v1.PodRunning, 5*time.Second)
	} else {
		<-time.After(time.Minute)
		if p := r.pod(victim.UID); p != nil && p.Status.Phase == v1.PodRunning {
			t.Error("the bad pod runs")
		}
	}
	if code.named[how] != "" && !code.late {
		named(r, code.named[how])
	}

	r.set(good[:10]...) // half of the good pods go, and the bad one
	gone := func(p *v1.Pod) func() error {
		return func() error {
			if r.pod(p.UID) != nil || strings.Contains(strings.Join(inRuntime(r), " "), string(p.UID)) {
				return unmet(func() string { return r.explain(p.UID) })
			}
			return nil
		}
	}
	for _, p := range good[10:] {
		r.within(30*time.Second, "a good pod goes", gone(p))
	}
	if code.ends[how] {
		r.within(time.Minute, "the bad pod goes", gone(victim))
	}
	if code.named[how] != "" && code.late {
		named(r, code.named[how])
	}
	x.mu.Lock()
	if most := x.most; most > 1 {
		t.Errorf("%d calls hang at once", most)
	}
	x.mu.Unlock()

	release()
	r.within(6*time.Minute, "the bad pod to be gone", gone(victim))
	r.set(append(good[:10], victim)...)
	r.phase(victim.UID, v1.PodRunning, 5*time.Minute)
	r.within(11*time.Minute, "all to be well", r.problems)
	r.set()
	r.empty(time.Minute)
}

// named waits until a problem with this text is listed.
func named(r *rig, text string) {
	r.t.Helper()
	r.within(4*time.Minute, "the trouble is named", func() error {
		if err := r.problems(); err == nil || !strings.Contains(err.Error(), text) {
			return unmet(func() string { return fmt.Sprintf("%q is not named, problems: %v", text, err) })
		}
		return nil
	})
}

// inRuntime returns the UIDs of the pods that the runtime has.
func inRuntime(r *rig) (uids []string) {
	list, err := r.runtime.ListPodSandbox(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range list {
		uids = append(uids, s.GetMetadata().GetUid())
	}
	return uids
}
