package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// faultsVariable, set to "full", makes the test run the whole matrix with 110 pods, and the virtual
// hour: make faults-pleg.
const faultsVariable = "PODWRIGHT_FAULTS"

// fault is one column of the fault matrix: the disturbance of a share of the runtime's events or
// calls, and the maximum delay until an exit is published.
type fault struct {
	name   string
	shares []int // in percent
	// inject makes chance(), true for that share, go wrong.
	inject func(rt *fake.Runtime, chance func() bool)
	// limit is the maximum latency of every exit; 0 means none. Without a fault it is atOnce.
	limit time.Duration
}

// Latency limits: for an exit whose event arrives, for one that only a relist shows, and for one
// that only a relist of a quiet node shows.
const (
	atOnce   = 100 * time.Millisecond
	byRelist = 1200 * time.Millisecond
	byQuiet  = 5200 * time.Millisecond
)

// onEvents delivers a share of the stream's events as decide says.
func onEvents(decide func() fake.Delivery) func(*fake.Runtime, func() bool) {
	return func(rt *fake.Runtime, chance func() bool) {
		rt.OnEvent(func(fake.Event) fake.Delivery {
			if chance() {
				return decide()
			}
			return fake.Delivery{}
		})
	}
}

// onCalls makes a share of the calls of these methods go wrong.
func onCalls(effect fake.Effect, methods ...fake.Method) func(*fake.Runtime, func() bool) {
	return func(rt *fake.Runtime, chance func() bool) {
		for _, m := range methods {
			rt.Inject(fake.Fault{Match: fake.Match{Method: m, Func: func(fake.Call) bool { return chance() }}, Effect: effect})
		}
	}
}

// faults returns the faults of spec/pleg.md EV2, EV6 and R3. The stream only makes things faster
// (EV4), and a failed list changes nothing (PI5).
func faults() []fault {
	quarters := []int{0, 10, 50, 100}
	unavailable := fake.Effect{Err: runtime.ErrUnavailable}
	return []fault{
		{"event dropped", quarters, onEvents(func() fake.Delivery { return fake.Delivery{Drop: true} }), byQuiet},
		{"event delayed 3 s", quarters, onEvents(func() fake.Delivery { return fake.Delivery{Delay: 3 * time.Second} }), 3*time.Second + atOnce},
		{"event doubled", quarters, onEvents(func() fake.Delivery { return fake.Delivery{Copies: 3} }), atOnce},
		{"event reordered", quarters, onEvents(func() fake.Delivery { return fake.Delivery{Behind: 3} }), byQuiet},
		{"stream silent", []int{100}, onCalls(fake.Effect{Hang: true}, fake.GetContainerEvents), byRelist},
		{"stream refused", []int{100}, onCalls(fake.Effect{Err: runtime.ErrUnimplemented}, fake.GetContainerEvents), byRelist},
		{"list fails", []int{10, 50}, onCalls(unavailable, fake.ListPodSandbox, fake.ListContainers), 0},
		{"list fails, 30 s in a minute", []int{100}, func(rt *fake.Runtime, _ func() bool) {
			for _, m := range []fake.Method{fake.ListPodSandbox, fake.ListContainers} {
				rt.Inject(fake.Fault{Match: fake.Match{Method: m, Func: func(c fake.Call) bool {
					return c.Start.Second() >= 30
				}}, Effect: unavailable})
			}
		}, 0},
		{"status fails", []int{10, 50}, onCalls(unavailable, fake.PodSandboxStatus, fake.ContainerStatus), 0},
	}
}

// TestFaultMatrix runs the same pods under every fault: they all end in the same state, no
// container is created too often, and only latency suffers (EV2, EV4, PI5, PI13).
func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	pods, full := 15, os.Getenv(faultsVariable) == "full"
	if full {
		pods = 110
	}
	want := population(pods).outcome()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tshare\tfinal state\tsettled after\tcreated too often\tran twice\texit to status p50\tp99\tmax\truntime calls")
	for _, f := range faults() {
		for _, share := range f.shares {
			if !full && (share == 10 || share == 0 && f.name != "event dropped") {
				continue
			}
			var c cell
			t.Run(fmt.Sprintf("%s/%d%%", f.name, share), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c = f.run(t, share, pods) })
				c.check(t, want, f, share)
			})
			fmt.Fprintf(w, "%s\t%d %%\t%s\t%v\t%d\t%d\t%v\t%v\t%v\t%d\n", f.name, share, c.verdict(want), c.took, c.surplus, c.doubled,
				c.at(0.5), c.at(0.99), c.at(1), c.calls)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pods per cell; times are virtual\n%s", pods, table.String())
}

// cell is the outcome of one cell of the matrix.
type cell struct {
	took    time.Duration // from the last change of the wanted pods to the final state
	final   string
	surplus int // containers created beyond what the pods need
	doubled int // containers of which two ran at once
	delays  []time.Duration
	calls   int
}

// run takes the population through its life.
func (f fault) run(t *testing.T, share, pods int) cell {
	random := rand.New(rand.NewPCG(uint64(share), 7))
	var mu sync.Mutex
	chance := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(100) < share
	}
	all := population(pods)
	rt := fake.New(fake.Options{Script: all.script})
	f.inject(rt, chance)
	ends := &endings{at: map[types.UID]time.Time{}}
	r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Observe.Sinks = append(c.Observe.Sinks, ends) }).start()
	r.set(all.wanted(false)...)
	<-time.After(40 * time.Second)
	r.set(all.wanted(true)...) // some pods go, others come
	c := cell{}
	want := all.outcome()
	for c.final != want && c.took < time.Hour {
		<-time.After(5 * time.Second)
		c.took += 5 * time.Second
		synctest.Wait()
		c.final = describe(r.engine.Pods())
	}
	<-time.After(2 * time.Minute) // the state stays final
	synctest.Wait()
	c.final, c.calls = describe(r.engine.Pods()), rt.CallCount("")
	for _, m := range all {
		facts := rt.Facts(m.pod.UID, m.container())
		c.surplus += facts.Created - m.creations()
		if facts.MaxRunning > 1 {
			c.doubled++
		}
		if m.container() == "leaver" {
			continue // its end is its deletion, not the end of its lifetime
		}
		starts := rt.Calls(fake.Match{Method: fake.StartContainer, PodUID: m.pod.UID})
		if at, ok := ends.of(m.pod.UID); ok && len(starts) > 0 {
			c.delays = append(c.delays, at.Sub(starts[0].End.Add(m.lifetime())))
		}
	}
	slices.Sort(c.delays)
	if err := rt.Doubled(); err != nil {
		t.Error(err)
	}
	return c
}

func (c *cell) verdict(want string) string {
	if c.final == want {
		return "same"
	}
	return "DIFFERENT"
}

// at is a quantile of the time from an exit to the published status.
func (c *cell) at(share float64) time.Duration {
	if len(c.delays) == 0 {
		return 0
	}
	return c.delays[int(share*float64(len(c.delays)-1))].Round(time.Millisecond)
}

func (c *cell) check(t *testing.T, want string, f fault, share int) {
	t.Helper()
	if c.final != want {
		t.Errorf("final state\n%s\nwant\n%s", c.final, want)
	}
	if c.surplus != 0 || c.doubled != 0 {
		t.Errorf("%d containers created too often, %d ran twice at once", c.surplus, c.doubled)
	}
	limit := f.limit
	if share == 0 {
		limit = atOnce
	}
	if len(c.delays) == 0 || limit > 0 && c.at(1) > limit {
		t.Errorf("%d exits, published after at most %v, want within %v", len(c.delays), c.at(1), limit)
	}
}

// members are the pods of one cell; the kind of the i-th is i modulo 5.
type members []member

type member struct {
	number int
	pod    *v1.Pod
}

// kinds of members, which are the names of their containers too.
var kinds = [...]string{"server", "job", "fail", "flaky", "leaver"}

func population(n int) members {
	all := make(members, 0, n)
	for i := range n {
		kind := kinds[i%len(kinds)]
		p := newPod(fmt.Sprintf("%s-%03d", kind, i), kind)
		if kind == "job" || kind == "fail" {
			p.Spec.RestartPolicy = v1.RestartPolicyNever
		}
		all = append(all, member{i, p})
	}
	return all
}

func (m member) container() string { return m.pod.Spec.Containers[0].Name }

// late reports whether the member is wanted only from the second set on.
func (m member) late() bool { return m.number%10 == 0 }

// creations is the number of containers that the member needs.
func (m member) creations() int {
	if m.container() == "flaky" {
		return 3
	}
	return 1
}

// wanted returns the pods of the first or the second set.
func (all members) wanted(second bool) []*v1.Pod {
	var pods []*v1.Pod
	for _, m := range all {
		if m.late() && !second || m.container() == "leaver" && second {
			continue
		}
		pods = append(pods, m.pod.DeepCopy())
	}
	return pods
}

// lifetime is how long a job takes. The ends are spread over some minutes, with
// quiet times in between.
func (m member) lifetime() time.Duration {
	return time.Duration(2000+(m.number*17389)%200_000) * time.Millisecond
}

// script is what the containers of the members do.
func (all members) script(l fake.Launch) fake.Script {
	i := slices.IndexFunc(all, func(m member) bool { return m.pod.UID == l.PodUID })
	after := all[i].lifetime()
	switch l.Container {
	case "job":
		return fake.Script{Exit: &fake.Exit{After: after}}
	case "fail":
		return fake.Script{Exit: &fake.Exit{After: after, Code: 3}}
	case "flaky":
		return fake.Script{Crashes: 2, Crash: fake.Exit{After: 5 * time.Second, Code: 1}}
	case "leaver":
		return fake.Script{OnTERM: fake.Exit{After: time.Second}}
	}
	return fake.Script{}
}

// outcome is what describe must return in the end.
func (all members) outcome() string {
	var lines []string
	for _, m := range all {
		switch m.container() {
		case "server":
			lines = append(lines, m.pod.Name+" Running running restarts=0")
		case "job":
			lines = append(lines, m.pod.Name+" Succeeded code=0 restarts=0")
		case "fail":
			lines = append(lines, m.pod.Name+" Failed code=3 restarts=0")
		case "flaky":
			lines = append(lines, m.pod.Name+" Running running restarts=2")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// describe renders what must not depend on faults.
func describe(pods []v1.Pod) string {
	var lines []string
	for _, p := range pods {
		line := fmt.Sprintf("%s %s", p.Name, p.Status.Phase)
		for _, c := range p.Status.ContainerStatuses {
			switch {
			case c.State.Running != nil:
				line += " running"
			case c.State.Terminated != nil:
				line += fmt.Sprintf(" code=%d", c.State.Terminated.ExitCode)
			default:
				line += " waiting"
			}
			line += fmt.Sprintf(" restarts=%d", c.RestartCount)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// endings is a sink that records when each pod was first reported as ended.
type endings struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

func (e *endings) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.at[u.UID]; !known && (u.Status.Phase == v1.PodSucceeded || u.Status.Phase == v1.PodFailed) {
		e.at[u.UID] = time.Now()
	}
	return status.Stored, nil
}

func (e *endings) of(uid types.UID) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.at[uid]
	return at, ok
}

// TestHungStatus: the runtime does not answer about one pod. The others restart as quickly as ever,
// the engine names the pod and stays healthy, and when the runtime answers again the pod continues
// where it was (B3, B4, B5, PI14).
func TestHungStatus(t *testing.T) {
	t.Parallel()
	n, span := 15, 10*time.Minute
	if os.Getenv(faultsVariable) == "full" {
		n, span = 110, time.Hour
	}
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir()).start()
		var wanted []*v1.Pod
		for i := range n {
			wanted = append(wanted, newPod(fmt.Sprintf("p%03d", i)))
		}
		r.set(wanted...)
		for _, p := range wanted {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		hung := wanted[0].UID
		heal := rt.Inject(
			fake.Fault{Match: fake.Match{Method: fake.ContainerStatus, PodUID: hung}, Effect: fake.Effect{Hang: true}},
			fake.Fault{Match: fake.Match{Method: fake.PodSandboxStatus, PodUID: hung}, Effect: fake.Effect{Hang: true}},
		)
		crash := func(uid types.UID) {
			t.Helper()
			if err := rt.Exit(uid, "main", fake.Exit{Code: 1}); err != nil {
				t.Fatal(err)
			}
		}
		crash(hung)
		restarted := func(uid types.UID) func() error {
			return func() error {
				if facts := rt.Facts(uid, "main"); facts.Created != 2 || facts.Running != 1 {
					return fmt.Errorf("%+v", facts)
				}
				return nil
			}
		}
		var slowest time.Duration
		for i := range 10 {
			<-time.After(span / 10)
			other := wanted[1+i].UID
			crash(other)
			slowest = max(slowest, r.within(time.Minute, "restart of another pod", restarted(other)))
		}
		if slowest > atOnce {
			t.Errorf("other pods restarted up to %v after their exit, want within %v", slowest, atOnce)
		}
		if e, _ := r.engine.Explain(hung); e.Unreadable == "" {
			t.Errorf("nothing says that the runtime does not answer about the pod: %+v", e)
		}
		if e, _ := r.engine.Explain(wanted[1].UID); e.Unreadable != "" {
			t.Errorf("a healthy pod is said to be unreadable: %s", e.Unreadable)
		}
		if err := r.engine.Healthy(); err != nil {
			t.Errorf("one hung pod makes the engine unhealthy: %v", err)
		}
		if told, most := r.events.count("p000 InspectionTimedOut"), int(span/time.Minute)+1; told == 0 || told > most {
			t.Errorf("people were told %d times in %v, want at least once and at most once a minute", told, span)
		}
		heal()
		back := r.within(2*time.Minute, "restart of the pod after the runtime answers again", restarted(hung))
		t.Logf("%d pods, %v: others restarted within %v, the hung one %v after the runtime answered again", n, span, slowest, back)
		if err := errors.Join(rt.Doubled()); err != nil {
			t.Error(err)
		}
	})
}
