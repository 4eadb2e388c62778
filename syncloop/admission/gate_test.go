package admission_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/syncloop/admission"
)

func pod(name string, edits ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	p.Spec.Containers = []v1.Container{{Name: "main"}}
	for _, e := range edits {
		e(p)
	}
	return p
}

// memory keeps verdicts in memory.
type memory struct {
	verdicts map[types.UID]admission.Verdict
	// again: all pods are judged again.
	again bool
	err   error
}

func (m *memory) Verdict(pod *v1.Pod) (admission.Verdict, bool, error) {
	uid := pod.UID
	v, ok := m.verdicts[uid]
	return v, ok && !m.again, m.err
}

func (m *memory) Remember(pod *v1.Pod, v admission.Verdict) error {
	m.verdicts[pod.UID] = v
	return nil
}

// told collects what a gate publishes.
type told []string

func (t *told) Eventf(object apiruntime.Object, kind, reason, format string, args ...any) {
	*t = append(*t, fmt.Sprintf("%s %s %s: %s", object.(*v1.Pod).Name, kind, reason, fmt.Sprintf(format, args...)))
}

func (t *told) rejected(pod *v1.Pod, v admission.Verdict) {
	*t = append(*t, "status "+pod.Name+" "+v.Reason)
}

func newGate(t *testing.T, o admission.Options) *admission.Gate {
	t.Helper()
	g, err := admission.NewGate(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func refuse(name, reason string) admission.Handler {
	return admission.HandlerFunc(func(r admission.Request) admission.Verdict {
		if r.Pod.Name != name {
			return admission.Verdict{}
		}
		return admission.Refuse(reason, "no room for %s", name)
	})
}

// TestChain: AD2, AD3. Handlers are asked in order, and the first refusal wins. The gate
// publishes it: status, Warning event, and metric with the reasons it knows.
func TestChain(t *testing.T) {
	var out told
	m := &instrumenttest.Meter{}
	g := newGate(t, admission.Options{
		Handlers: []admission.Handler{refuse("b", "OutOfgold/nuggets"), refuse("b", "Later"), refuse("c", "MadeUp"), refuse("d", "OutOfcpu")},
		Rejected: out.rejected, Recorder: &out, Meter: m,
	})
	var admitted []string
	for _, name := range []string{"a", "b", "c", "d"} {
		if ok, err := g.Admit(t.Context(), pod(name), slices.Values([]*v1.Pod(nil))); err != nil {
			t.Fatal(err)
		} else if ok {
			admitted = append(admitted, name)
		}
	}
	if want := []string{"a"}; !slices.Equal(admitted, want) {
		t.Errorf("admitted %v, want %v", admitted, want)
	}
	if want := []string{
		"status b OutOfgold/nuggets", "b Warning OutOfgold/nuggets: no room for b",
		"status c MadeUp", "c Warning MadeUp: no room for c", "status d OutOfcpu", "d Warning OutOfcpu: no room for d",
	}; !slices.Equal(out, want) {
		t.Errorf("told:\n%s", strings.Join(out, "\n"))
	}
	want := map[string]float64{}
	for _, reason := range []string{"OutOfExtendedResources", "Other", "OutOfcpu"} {
		want["kubelet_admission_rejections_total{reason="+reason+"}"] = 1
	}
	if got := m.Take(); !maps.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
}

// TestRemembered: AD5, edge case 19. A verdict given before a restart holds: handlers
// are not asked, and a refused pod gets its status again but no second event.
func TestRemembered(t *testing.T) {
	var out told
	m := &memory{verdicts: map[types.UID]admission.Verdict{"runs": {}, "refused": {Reason: "OutOfcpu", Message: "full"}}}
	asked := []string{}
	g := newGate(t, admission.Options{
		Handlers: []admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
			asked = append(asked, r.Pod.Name)
			return admission.Refuse("OutOfmemory", "the node has shrunk")
		})},
		Verdicts: m, Rejected: out.rejected, Recorder: &out,
	})
	for name, want := range map[string]bool{"runs": true, "refused": false, "new": false} {
		if ok, err := g.Admit(t.Context(), pod(name), nil); ok != want || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if !slices.Equal(asked, []string{"new"}) {
		t.Errorf("asked about %v", asked)
	}
	slices.Sort(out)
	if want := []string{"new Warning OutOfmemory: the node has shrunk", "status new OutOfmemory", "status refused OutOfcpu"}; !slices.Equal(out, want) {
		t.Errorf("told:\n%s", strings.Join(out, "\n"))
	}
	if m.verdicts["new"].Reason != "OutOfmemory" {
		t.Errorf("remembered %v", m.verdicts)
	}

	if !g.Remembered("runs") || g.Remembered("refused") || g.Remembered("unheard") {
		t.Error("only an admitted pod comes first")
	}
	m.err = errors.New("disk")
	if ok, err := g.Admit(t.Context(), pod("runs"), nil); ok || !errors.Is(err, m.err) {
		t.Errorf("without memory: %v, %v", ok, err)
	}
}

// TestSameRefusalIsReportedOnce: AD3, AD5. A pod that is judged again and refused as before has its status, and no second event.
func TestSameRefusalIsReportedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		verdict admission.Verdict
		want    []string
	}{
		"as before": {admission.Refuse("NodeAffinity", "no disk"), []string{"status a NodeAffinity"}},
		"otherwise": {admission.Refuse("NodeAffinity", "no GPU"), []string{"a Warning NodeAffinity: no GPU", "status a NodeAffinity"}},
		"not now":   {want: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			out := told{}
			m := &memory{verdicts: map[types.UID]admission.Verdict{pod("a").UID: admission.Refuse("NodeAffinity", "no disk")}, again: true}
			g := newGate(t, admission.Options{
				Handlers: []admission.Handler{admission.HandlerFunc(func(admission.Request) admission.Verdict { return test.verdict })},
				Verdicts: m, Rejected: out.rejected, Recorder: &out,
			})
			if ok, err := g.Admit(t.Context(), pod("a"), nil); ok != test.verdict.Admitted() || err != nil {
				t.Errorf("%t, %v", ok, err)
			}
			if slices.Sort(out); !slices.Equal(out, test.want) {
				t.Errorf("told %q", out)
			}
			if now := m.verdicts[pod("a").UID]; now != test.verdict {
				t.Errorf("remembered %v", now)
			}
		})
	}
}

// TestActivePodsCount: AD1, AD4. Others are the active pods except the candidate, with
// the resources they were granted.
func TestActivePodsCount(t *testing.T) {
	granted := pod("granted")
	var seen []*v1.Pod
	g := newGate(t, admission.Options{
		Handlers: []admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
			seen = slices.Collect(r.Others)
			return admission.Verdict{}
		})},
		Active: func(p *v1.Pod) (*v1.Pod, bool) {
			if p.Name == "x" {
				return granted, true
			}
			return p, p.Name != "ended"
		},
	})
	new, x := pod("new"), pod("x")
	if _, err := g.Admit(t.Context(), new, slices.Values([]*v1.Pod{new, pod("ended"), x})); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0] != granted {
		t.Errorf("others: %v", seen)
	}
}

// TestPodThatShowsItsEndIsNotJudged: PS9. It is judged when its end is taken back, because there is
// no verdict on it yet.
func TestPodThatShowsItsEndIsNotJudged(t *testing.T) {
	m := &memory{verdicts: map[types.UID]admission.Verdict{}}
	g := newGate(t, admission.Options{Handlers: []admission.Handler{refuse("a", "No")}, Verdicts: m})
	deleted := func(p *v1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }
	done := func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }
	for what, edit := range map[string]func(*v1.Pod){"deleted": deleted, "done": done} {
		if ok, err := g.Admit(t.Context(), pod("a", edit), nil); !ok || err != nil {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
	}
	if ok, _ := g.Admit(t.Context(), pod("a"), nil); ok {
		t.Error("the pod is admitted when its end is taken back")
	}
}

// TestRefusedPodThatShowsItsEndStaysRefused: AD5, PS9. An API shows a refused pod as Failed: it gets no worker
// after a restart either, because a worker would report the end of containers that never existed.
func TestRefusedPodThatShowsItsEndStaysRefused(t *testing.T) {
	var out told
	m := &memory{verdicts: map[types.UID]admission.Verdict{"refused": {Reason: "NodeAffinity", Message: "no"}, "ran": {}}}
	g := newGate(t, admission.Options{Verdicts: m, Rejected: out.rejected})
	failed := func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }
	for name, want := range map[string]bool{"refused": false, "ran": true, "unheard": true} {
		if ok, err := g.Admit(t.Context(), pod(name, failed), nil); ok != want || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if want := []string{"status refused NodeAffinity"}; !slices.Equal(out, want) {
		t.Errorf("told: %q", out)
	}
	m.err = errors.New("not loaded yet")
	if ok, err := g.Admit(t.Context(), pod("ran", failed), nil); !ok || err != nil {
		t.Errorf("an end waits for the records: %v, %v", ok, err)
	}
}

// TestRefuseLate: AD8. A refusal from setup is reported and counted.
func TestRefuseLate(t *testing.T) {
	var out told
	m := &memory{verdicts: map[types.UID]admission.Verdict{}}
	g := newGate(t, admission.Options{Verdicts: m, Recorder: &out})
	err := fmt.Errorf("set up: %w", &admission.Refusal{Verdict: admission.Refuse("VolumeAttachmentLimitExceeded", "no slot")})
	var refusal *admission.Refusal
	if !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	g.RefuseLate(t.Context(), pod("a"), refusal.Verdict)
	if want := []string{"a Warning VolumeAttachmentLimitExceeded: no slot"}; !slices.Equal(out, want) || len(m.verdicts) != 0 {
		t.Errorf("told %v, remembered %v", out, m.verdicts)
	}
}

func TestNewGateRefusesNil(t *testing.T) {
	if _, err := admission.NewGate(admission.Options{Handlers: []admission.Handler{nil}}); err == nil || !strings.Contains(err.Error(), "handler 0") {
		t.Error(err)
	}
}

// later is an Asker whose verdict is what its function says.
type later func() (admission.Verdict, error)

func (l later) Ask(admission.Request) (admission.Verdict, error) { return l() }
func (l later) Admit(admission.Request) admission.Verdict {
	return admission.Refuse("Admit", "asked as one that cannot wait")
}

// TestJudge: AD2, IN6. The first refusal wins; a handler that panics, and an Asker without a verdict, are an error.
func TestJudge(t *testing.T) {
	open := errors.New("no connection")
	never := later(func() (admission.Verdict, error) { panic("asked after a verdict") })
	for name, tc := range map[string]struct {
		handlers []admission.Handler
		reason   string
		err      string
	}{
		"no handler":          {},
		"refused":             {handlers: []admission.Handler{refuse("x", "No"), refuse("web", "First"), never}, reason: "First"},
		"an Asker's verdict":  {handlers: []admission.Handler{later(func() (admission.Verdict, error) { return admission.Refuse("No", ""), nil }), never}, reason: "No"},
		"an Asker without":    {handlers: []admission.Handler{later(func() (admission.Verdict, error) { return admission.Verdict{}, open }), never}, err: "no connection"},
		"a handler's panic":   {handlers: []admission.Handler{admission.HandlerFunc(func(admission.Request) admission.Verdict { panic("oops") }), never}, err: "a handler panicked: oops"},
		"the panic of an Ask": {handlers: []admission.Handler{later(func() (admission.Verdict, error) { panic("oops") })}, err: "a handler panicked: oops"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := admission.Judge(tc.handlers, admission.Request{Pod: pod("web")})
			if v.Reason != tc.reason || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("%q, %v, want %q, %q", v.Reason, err, tc.reason, tc.err)
			}
		})
	}
}
