package podsync

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

// refuseAll refuses every pod.
type refuseAll struct{}

func (refuseAll) Admit(admission.Request) admission.Verdict {
	return admission.Refuse("NoRoom", "full")
}

func withHandler(h admission.Handler) func(*Options) {
	return func(o *Options) { o.Admission.Handlers = []admission.Handler{h} }
}

// TestBlockedPodIsStoppedAndWaits: AD6: a pod that a handler refuses is stopped, shown as
// Pending with its containers Blocked, and asked about again after 10 s.
func TestBlockedPodIsStoppedAndWaits(t *testing.T) {
	for _, runs := range []bool{true, false} {
		t.Run(fmt.Sprintf("runs=%t", runs), func(t *testing.T) {
			n := newNode(t)
			view := nothing()
			calls := []string{"Syncing", "SetPodStatus", "Observed"}
			if runs {
				view, calls = viewOf(runtime.Running), append(calls, "KillPod", "Get")
				n.view = nothing()
			}
			pod := web()
			pod.Spec.RestartPolicy = v1.RestartPolicyAlways
			pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
			_, err := n.syncer(withHandler(refuseAll{})).SyncPod(t.Context(), podworkers.Sync, pod, nil, view)
			var retry interface{ RetryAt() time.Time }
			if !errors.Is(err, errBlocked) || !errors.As(err, &retry) || !retry.RetryAt().Equal(n.clock.Now().Add(10*time.Second)) {
				t.Error(err)
			}
			n.want(append(calls, publishing...)...)
			st := n.last()
			if st.Phase != v1.PodPending || st.Reason != "NoRoom" || st.Message != "full" {
				t.Errorf("%s %s %s", st.Phase, st.Reason, st.Message)
			}
			if w := st.ContainerStatuses[0].State.Waiting; !runs && (w == nil || w.Reason != "Blocked") {
				t.Errorf("%+v", st.ContainerStatuses[0])
			}
		})
	}
}

// TestBlockedPodThatEndsIsTerminal: a pod whose containers ended with the stop has ended, and is not
// waiting for anything.
func TestBlockedPodThatEndsIsTerminal(t *testing.T) {
	n := newNode(t)
	n.view = viewOf(runtime.Exited)
	result, err := n.syncer(withHandler(refuseAll{})).SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running))
	if err != nil || !same(result, podworkers.SyncResult{Acted: true, Terminal: true}) {
		t.Errorf("%+v, %v", result, err)
	}
	if n.last().Phase != v1.PodFailed || n.last().Reason == "NoRoom" {
		t.Errorf("%+v", n.last())
	}
}

// TestBlockedPodIsStoppedThoughItsStatusIsDropped: IN5: the pod is stopped, and the handlers are
// asked again at the usual pace.
func TestBlockedPodIsStoppedThoughItsStatusIsDropped(t *testing.T) {
	n := newNode(t)
	n.fail["SetPodStatus"] = true
	n.view = nothing()
	if _, err := n.syncer(withHandler(refuseAll{})).SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running)); !errors.Is(err, errBlocked) {
		t.Error(err)
	}
	if !slices.Contains(n.calls, "KillPod") {
		t.Errorf("%q", n.calls)
	}
}

// TestHandlerSeesOthersAndItsPanicRefuses: handlers are given the other active pods; a panic counts as
// a refusal (B9).
func TestHandlerSeesOthersAndItsPanicRefuses(t *testing.T) {
	n := newNode(t)
	others := func(except types.UID) iter.Seq[*v1.Pod] {
		return slices.Values([]*v1.Pod{{Spec: v1.PodSpec{NodeName: "not " + string(except)}}})
	}
	h := admission.HandlerFunc(func(r admission.Request) admission.Verdict {
		for p := range r.Others {
			panic(p.Spec.NodeName)
		}
		return admission.Verdict{}
	})
	s := n.syncer(withHandler(h), func(o *Options) { o.Admission.Others = others })
	_, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing())
	if !errors.Is(err, errBlocked) || !strings.Contains(err.Error(), "UnexpectedAdmissionError: a handler panicked: not u") {
		t.Error(err)
	}
	s = n.syncer(withHandler(h)) // there are no others
	if _, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()); err != nil {
		t.Error(err)
	}
}

// asker gives its verdict later.
type asker func() (admission.Verdict, error)

func (a asker) Ask(admission.Request) (admission.Verdict, error) { return a() }
func (a asker) Admit(admission.Request) admission.Verdict {
	return admission.Refuse("NoRoom", "asked as one that cannot wait")
}

// TestOpenVerdictStopsNothing: AD6, IN6. While a handler has no verdict on a pod, nothing is started or stopped, and it is
// asked again; one that panics, or does not answer for 10 s, refuses.
func TestOpenVerdictStopsNothing(t *testing.T) {
	open := errors.New("no connection")
	unanswered := func(waited time.Duration) error {
		return &foreign.UnansweredError{Name: "h", Since: time.Unix(1000, 0), Waited: waited}
	}
	for name, tc := range map[string]struct {
		ask     func() (admission.Verdict, error)
		blocked bool
		retry   func(now time.Time) time.Time
	}{
		"no verdict":     {ask: func() (admission.Verdict, error) { return admission.Verdict{}, open }, retry: func(now time.Time) time.Time { return now.Add(10 * time.Second) }},
		"no answer":      {ask: func() (admission.Verdict, error) { return admission.Verdict{}, unanswered(time.Second) }, retry: func(time.Time) time.Time { return time.Unix(1010, 0) }},
		"never answered": {ask: func() (admission.Verdict, error) { return admission.Verdict{}, unanswered(10 * time.Second) }, blocked: true},
		"panics":         {ask: func() (admission.Verdict, error) { panic("oops") }, blocked: true},
	} {
		for _, runs := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, runs=%t", name, runs), func(t *testing.T) {
				n, view := newNode(t), nothing()
				if runs {
					view = viewOf(runtime.Running)
				}
				n.view = nothing()
				pod := web()
				pod.Spec.RestartPolicy = v1.RestartPolicyAlways
				_, err := n.syncer(withHandler(asker(tc.ask))).SyncPod(t.Context(), podworkers.Sync, pod, nil, view)
				if err == nil || errors.Is(err, errBlocked) != tc.blocked {
					t.Errorf("%v, want that it is blocked: %t", err, tc.blocked)
				}
				if killed := slices.Contains(n.calls, "KillPod"); killed != (tc.blocked && runs) || slices.Contains(n.calls, "SyncPod") {
					t.Errorf("%q", n.calls)
				}
				var retry interface{ RetryAt() time.Time }
				if !errors.As(err, &retry) || tc.retry != nil && !retry.RetryAt().Equal(tc.retry(n.clock.Now())) {
					t.Errorf("asked again: %v", err)
				}
			})
		}
	}
}

// TestLateRefusalEndsThePod: AD8: a refusal returned by setup fails the pod, and is
// reported even if the pod's status is dropped (IN5).
func TestLateRefusalEndsThePod(t *testing.T) {
	n := newNode(t)
	refusal := &admission.Refusal{Verdict: admission.Refuse("NoDisk", "no disk")}
	n.results = []pods.Result{{Err: fmt.Errorf("setup: %w", refusal)}}
	var told []string
	tell := func(o *Options) {
		o.Admission.Refused = func(_ context.Context, pod *v1.Pod, v admission.Verdict) {
			told = append(told, string(pod.UID)+" "+v.Reason+" "+string(n.last().Phase))
		}
	}
	result, err := n.syncer(tell).SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing())
	if err != nil || !same(result, podworkers.SyncResult{Terminal: true, Amend: result.Amend}) || result.Amend == nil {
		t.Errorf("%+v, %v", result, err)
	}
	if st := n.last(); st.Phase != v1.PodFailed || st.Reason != "NoDisk" || st.Message != "Pod was rejected: no disk" {
		t.Errorf("%+v", st)
	}
	if !slices.Equal(told, []string{"u NoDisk Failed"}) {
		t.Error(told)
	}

	n, told = newNode(t), nil
	n.results = []pods.Result{{Err: refusal}}
	s := n.syncer(tell)
	s.o.Probes = failAfterAdd{prober{n}}
	if result, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()); err != nil || !result.Terminal || len(told) != 1 {
		t.Error(result, err, told)
	}
	n.fail["SetPodStatus"], n.view = false, viewOf(runtime.Exited)
	if err := s.SyncTerminatingPod(t.Context(), web(), nothing(), nil, nil); err != nil || n.last().Reason != "NoDisk" {
		t.Errorf("%v, the reason is lost: %+v", err, n.last())
	}
	n = newNode(t)
	n.results = []pods.Result{{Err: refusal}}
	if result, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()); err != nil || !result.Terminal {
		t.Error(result, err) // Refused is not set
	}
}

// failAfterAdd makes statuses fail to be stored once the pod is probed.
type failAfterAdd struct{ prober }

func (f failAfterAdd) AddPod(*v1.Pod) { f.n.fail["SetPodStatus"] = true }

// TestBlockedPodStaysBlockedWhileItIsAskedAbout: AD6: the status of a blocked pod does not change
// each time the handlers are asked.
func TestBlockedPodStaysBlockedWhileItIsAskedAbout(t *testing.T) {
	n := newNode(t)
	refuse := admission.HandlerFunc(func(admission.Request) admission.Verdict { return admission.Refuse("NoLicense", "no answer") })
	s := n.syncer(func(o *Options) { o.Admission.Handlers = []admission.Handler{refuse} })
	for range 2 {
		if _, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()); !errors.Is(err, errBlocked) {
			t.Fatal(err)
		}
	}
	for i, published := range n.published {
		if w := published.ContainerStatuses[0].State.Waiting; published.Reason != "NoLicense" || w == nil || w.Reason != reasonBlocked {
			t.Errorf("status %d: %+v", i, published)
		}
	}
}

// answers is a handler that may leave a question open.
type answers func() (admission.Verdict, error)

func (f answers) Ask(admission.Request) (admission.Verdict, error) { return f() }
func (f answers) Admit(admission.Request) admission.Verdict        { panic("it is asked") }

// TestBlockEndsWithItsReason: AD6, status.md 2.4: a blocked pod stays so while its handlers have not answered
// again, and what blocked it is not shown once it is admitted, not even if an API still shows it.
func TestBlockEndsWithItsReason(t *testing.T) {
	n := newNode(t)
	refused, open := admission.Refuse("NoLicense", "the server has none"), &foreign.UnansweredError{Since: n.clock.Now()}
	verdict, err := refused, error(nil)
	s := n.syncer(withHandler(answers(func() (admission.Verdict, error) { return verdict, err })))
	pod := web()
	for _, step := range []struct {
		name            string
		verdict         admission.Verdict
		err             error
		reason, waiting string
	}{
		{"refused", refused, nil, "NoLicense", reasonBlocked},
		{"open", admission.Verdict{}, open, "NoLicense", reasonBlocked},
		{"admitted", admission.Verdict{}, nil, "", "ContainerCreating"},
		{"open again", admission.Verdict{}, open, "", "ContainerCreating"},
	} {
		verdict, err = step.verdict, step.err
		_, _ = s.SyncPod(t.Context(), podworkers.Sync, pod, nil, nothing())
		st := n.last()
		if w := st.ContainerStatuses[0].State.Waiting; st.Phase != v1.PodPending || st.Reason != step.reason || (st.Message == "") != (step.reason == "") ||
			w == nil || w.Reason != step.waiting {
			t.Errorf("%s: %s %q %q, %+v", step.name, st.Phase, st.Reason, st.Message, w)
		}
		if step.name == "refused" {
			pod.Status = st
		}
	}
}
