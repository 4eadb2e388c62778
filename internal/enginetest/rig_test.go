package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an engine under test with its in-process source. All of it lives in a
// testing/synctest bubble, so its time is virtual.
type rig struct {
	t       *testing.T
	engine  *podwright.Engine
	source  *source.Channel
	runtime *fake.Runtime
	root    string
	events  *events
	sink    *history

	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// newRig builds an engine on a fake runtime; configure may change the
// configuration.
func newRig(t *testing.T, rt *fake.Runtime, root string, configure ...func(*podwright.Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, runtime: rt, root: root, events: &events{}, sink: &history{},
		source: source.NewChannel(source.ChannelOptions{NodeName: "n1", MaxPods: -1}),
		ended:  make(chan struct{}),
	}
	config := podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{r.source}, RootDir: root, Node: podwright.Node{Name: "n1"},
		Observe: podwright.Observe{Events: r.events, Sinks: []status.StatusSink{r.sink}},
	}
	config.Checkpoints.Reserve = -1 // the reserve would take a megabyte per test
	for _, c := range configure {
		c(&config)
	}
	var err error
	if r.engine, err = podwright.New(config); err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs the engine until stop, or the end of the test.
func (r *rig) start() *rig {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel = cancel
	go func() {
		defer close(r.ended)
		r.err = r.engine.Run(ctx)
	}()
	r.t.Cleanup(r.stop)
	return r
}

// stop ends the engine as kill -9 would end an agent, but for its goroutines: no
// pod is touched.
func (r *rig) stop() {
	r.cancel()
	<-r.ended
	if r.err != nil {
		r.t.Errorf("Run: %v", r.err)
	}
}

// set hands the desired pods to the engine.
func (r *rig) set(pods ...*v1.Pod) {
	r.t.Helper()
	if err := r.source.Set(r.t.Context(), pods); err != nil {
		r.t.Fatal(err)
	}
}

// imprecision is the maximum delay with which within notices that a check succeeds.
const imprecision = 250 * time.Millisecond

// within waits in virtual time until check succeeds; after limit it fails. Checks cost real time,
// so they become rarer the longer it waits: within notices success at most 10 ms late, or 2 % of
// the wait, up to imprecision.
func (r *rig) within(limit time.Duration, what string, check func() error) time.Duration {
	r.t.Helper()
	begin := time.Now()
	for {
		synctest.Wait()
		err := check()
		waited := time.Since(begin)
		if err == nil {
			return waited
		}
		if waited >= limit {
			r.t.Fatalf("%s: not within %v of virtual time: %v", what, limit, err)
		}
		<-time.After(min(max(10*time.Millisecond, waited/50), imprecision, limit-waited))
	}
}

// unmet makes the text of a failed check only when it is read: most checks of [rig.within] only
// come too early.
type unmet func() string

func (u unmet) Error() string { return u() }

// pod returns the engine's view of a pod, or nil.
func (r *rig) pod(uid types.UID) *v1.Pod {
	for _, p := range r.engine.Pods() {
		if p.UID == uid {
			return &p
		}
	}
	return nil
}

// phase waits for a phase and returns how long it took.
func (r *rig) phase(uid types.UID, want v1.PodPhase, limit time.Duration) time.Duration {
	r.t.Helper()
	return r.within(limit, fmt.Sprintf("pod %s %s", uid, want), func() error {
		if e, _ := r.engine.Explain(uid); e.Phase != want {
			return unmet(func() string { return fmt.Sprintf("phase %q, %s", e.Phase, r.explain(uid)) })
		}
		if r.pod(uid) == nil {
			return errors.New("unknown pod")
		}
		return nil
	})
}

// problems joins the engine's problems; nil if there are none.
func (r *rig) problems() error {
	var all []error
	for _, p := range r.engine.Problems() {
		all = append(all, p)
	}
	return errors.Join(all...)
}

func (r *rig) explain(uid types.UID) string {
	e, _ := r.engine.Explain(uid)
	text := fmt.Sprintf("containers %+v", e.Containers)
	if e.Worker != nil {
		text += fmt.Sprintf(", worker %s waits for %s, last error %q", e.Worker.State, e.Worker.WaitingFor, e.Worker.LastError)
	}
	return text + fmt.Sprintf(", problems %v", r.problems())
}

// empty waits until nothing is left in the runtime.
func (r *rig) empty(limit time.Duration) time.Duration {
	r.t.Helper()
	return r.within(limit, "an empty runtime", func() error {
		sandboxes, err := r.runtime.ListPodSandbox(r.t.Context(), nil)
		if err != nil {
			return err
		}
		containers, err := r.runtime.ListContainers(r.t.Context(), nil)
		if err != nil {
			return err
		}
		if len(sandboxes)+len(containers) > 0 {
			return fmt.Errorf("%d sandboxes, %d containers", len(sandboxes), len(containers))
		}
		return nil
	})
}

// newPod returns a pod with one container per name.
func newPod(name string, containers ...string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](10)},
	}
	if len(containers) == 0 {
		containers = []string{"main"}
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c, Image: "app:1"})
	}
	return p
}

// events records events as "pod reason", and their texts.
type events struct {
	mu    sync.Mutex
	seen  []string
	texts []string // of seen
}

func (e *events) Eventf(object apiruntime.Object, _, reason, format string, args ...any) {
	name := ""
	switch o := object.(type) {
	case *v1.Pod:
		name = o.Name
	case *v1.ObjectReference:
		name = o.Name
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, name+" "+reason)
	e.texts = append(e.texts, fmt.Sprintf(format, args...))
}

// said returns the texts of the events of one kind, such as "web Killing", oldest first.
func (e *events) said(event string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var texts []string
	for i, s := range e.seen {
		if s == event {
			texts = append(texts, e.texts[i])
		}
	}
	return texts
}

func (e *events) count(event string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, s := range e.seen {
		if s == event {
			n++
		}
	}
	return n
}

// history is a sink that remembers the phases and readiness each pod went through.
type history struct {
	mu     sync.Mutex
	phases map[types.UID][]v1.PodPhase
	ready  map[types.UID][]v1.ConditionStatus
	over   map[types.UID]bool
	// gone are the phases with which the sink heard that pods are forgotten, for those it has not heard of since.
	gone map[types.UID]v1.PodPhase
}

func (h *history) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phases == nil {
		h.phases, h.ready, h.over = map[types.UID][]v1.PodPhase{}, map[types.UID][]v1.ConditionStatus{}, map[types.UID]bool{}
		h.gone = map[types.UID]v1.PodPhase{}
	}
	h.over[u.UID] = h.over[u.UID] || u.Finished
	if delete(h.gone, u.UID); u.Forgotten {
		h.gone[u.UID] = u.Status.Phase
		return status.Stored, nil
	}
	if seen := h.phases[u.UID]; len(seen) == 0 || seen[len(seen)-1] != u.Status.Phase {
		h.phases[u.UID] = append(seen, u.Status.Phase)
	}
	for _, c := range u.Status.Conditions {
		if c.Type != v1.PodReady {
			continue
		}
		if seen := h.ready[u.UID]; len(seen) == 0 || seen[len(seen)-1] != c.Status {
			h.ready[u.UID] = append(seen, c.Status)
		}
	}
	return status.Stored, nil
}

func (h *history) of(uid types.UID) (phases []v1.PodPhase, ready []v1.ConditionStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phases[uid], h.ready[uid]
}

// forgotten returns the phase with which the sink heard that a pod is forgotten, empty if it did not.
func (h *history) forgotten(uid types.UID) v1.PodPhase {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone[uid]
}

// finished reports whether the sink heard that the pod is finished.
func (h *history) finished(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over[uid]
}

// counters is a meter provider that adds up counters by name and labels.
type counters struct {
	noop.MeterProvider
	mu   sync.Mutex
	sums map[string]int64
}

// get returns a sum; labels are in the order of their names, as in "a=1,b=2".
func (c *counters) get(name, labels string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sums[name+"{"+labels+"}"]
}

func (c *counters) Meter(string, ...metric.MeterOption) metric.Meter {
	return countingMeter{counters: c}
}

type countingMeter struct {
	noop.Meter
	counters *counters
}

func (m countingMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{name: name, counters: m.counters}, nil
}

type counter struct {
	noop.Int64Counter
	name     string
	counters *counters
}

func (c counter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	labels := metric.NewAddConfig(options).Attributes()
	c.counters.mu.Lock()
	defer c.counters.mu.Unlock()
	if c.counters.sums == nil {
		c.counters.sums = map[string]int64{}
	}
	c.counters.sums[c.name+"{"+labels.Encoded(attribute.DefaultEncoder())+"}"] += n
}

// writeFile makes an empty file.
func writeFile(path string) error { return os.WriteFile(path, nil, 0o600) }
