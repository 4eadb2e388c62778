package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
)

// notebook is a [Journal] in memory.
type notebook struct {
	mu      sync.Mutex
	changed map[types.UID]uint64
	acked   map[types.UID]uint64
	durable bool
	calls   int // of Changed
	// unfinished: the fact that a pod is finished is not written.
	unfinished bool
}

func newNotebook(durable bool) *notebook {
	return &notebook{changed: map[types.UID]uint64{}, acked: map[types.UID]uint64{}, durable: durable}
}

func (n *notebook) Changed(pod *v1.Pod, _ *v1.PodStatus, version uint64, _ bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed[pod.UID] = version
	n.calls++
}

func (n *notebook) Acknowledged(uid types.UID, _ string, _ types.UID, version uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.acked[uid] = version
}

func (n *notebook) Durable(_ types.UID, finished bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.durable && !(finished && n.unfinished)
}

func (n *notebook) write() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.durable = true
}

func (n *notebook) got(uid types.UID) (changed, acked uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed[uid], n.acked[uid]
}

// persistent is a recorder that keeps what it has.
type persistent struct{ *recorder }

func (persistent) Name() string     { return "kept" }
func (persistent) Persistent() bool { return true }

// container returns a status with one container.
func oneContainer(phase v1.PodPhase, cs v1.ContainerStatus) *v1.PodStatus {
	cs.Name = "main"
	return &v1.PodStatus{Phase: phase, ContainerStatuses: []v1.ContainerStatus{cs}}
}

func ended(id string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{ContainerID: id, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, ContainerID: id}}}
}

func goesOn(id string, ready bool) v1.ContainerStatus {
	return v1.ContainerStatus{ContainerID: id, Ready: ready, Started: ptr.To(true), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

// 9.3, 9.9 and 9.12: a status from before a restart is known at once; an end that no sink has
// acknowledged is sent at once, and any other status once it is confirmed; an end that a sink has is
// not sent again, and acknowledgements and versions continue, with a gap.
func TestRestoredStatusIsKnownAtOnce(t *testing.T) {
	bubble(t, "restored", func(t *testing.T) {
		journal := newNotebook(true)
		sink := &recorder{}
		m := NewManager(Options{Sinks: []StatusSink{persistent{sink}}, Journal: journal})
		m.Restore(Restored{Pod: newPod(uid("sent"), apps("main")), Status: message("known"), Version: 5, Acked: map[string]Acked{"kept": {Version: 5}}})
		failed := message("failed")
		failed.Phase = v1.PodFailed
		m.Restore(Restored{Pod: newPod(uid("told"), apps("main")), Status: failed, Version: 8, Acked: map[string]Acked{"kept": {Version: 8}}})
		m.Restore(Restored{Pod: newPod(uid("running"), apps("main")), Status: message("older"), Version: 3})
		m.Restore(Restored{Pod: newPod(uid("same"), apps("main")), Status: message("as it was"), Version: 3})
		m.Restore(Restored{Pod: newPod(uid("over"), apps("main")), Status: message("never ran"), Version: 2, Finished: true})
		news := message("news")
		news.Phase = v1.PodFailed
		m.Restore(Restored{Pod: newPod(uid("unsent"), apps("main")), Status: news, Version: 7, Acked: map[string]Acked{"kept": {Version: 6}}})
		if s, ok := m.Get("sent"); !ok || s.Message != "known" {
			t.Errorf("9.12: Get before Run: %v %v", s.Message, ok)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		advance(t, 0)
		if got := sink.got("unsent"); len(got) != 1 || got[0].Version != 7 || len(sink.got("sent"))+len(sink.got("told")) != 0 {
			t.Errorf("9.9: sent %v, %v and %v", versions(got), versions(sink.got("sent")), versions(sink.got("told")))
		}
		if got := sink.got("over"); len(got) != 1 || !got[0].Finished {
			t.Errorf("9.9: sent %v of a pod that is finished", versions(got))
		}
		if _, acked := journal.got("unsent"); acked != 7 {
			t.Errorf("acknowledged %d", acked)
		}
		// What is running may have got further than the record: nothing is taken back.
		m.Adopt(newPod(uid("running"), apps("main")))
		advance(t, time.Minute)
		if got := sink.got("running"); len(got) != 0 {
			t.Errorf("9.3: sent %v before anybody looked", versions(got))
		}
		// Stopping the engine does not wait for it.
		if err := m.Flush(t.Context()); err != nil {
			t.Errorf("Flush: %v", err)
		}
		set(t, m, newPod(uid("running"), apps("main")), message("newer"))
		set(t, m, newPod(uid("same"), apps("main")), message("as it was"))
		advance(t, 0)
		if got := sink.got("running"); len(got) != 1 || got[0].Status.Message != "newer" || got[0].Version != 4+unrecorded {
			t.Errorf("9.3: sent %v", versions(got))
		}
		if got := sink.got("same"); len(got) != 1 {
			t.Errorf("9.9: sent %v of what is confirmed", versions(got))
		}
		pod := newPod(uid("sent"), apps("main"))
		pod.Status = v1.PodStatus{} // its source has none
		set(t, m, pod, message("changed"))
		advance(t, 0)
		if changed, acked := journal.got("sent"); changed != 6+unrecorded || acked != 6+unrecorded {
			t.Errorf("version %d, acknowledged %d, want %d", changed, acked, 6+unrecorded)
		}
		m.Restore(Restored{Pod: newPod(uid("sent")), Status: message("late"), Version: 1})
		if s, _ := m.Get("sent"); s.Message != "changed" {
			t.Errorf("a restored status replaced a new one: %s", s.Message)
		}
		cancel()
		<-done
	})
}

// TestUnrecordedStatusIsReplaced: 9.3: a process that was killed may have sent statuses that it did
// not record. A sink that keeps what it has gets the present one, and never two with one version.
func TestUnrecordedStatusIsReplaced(t *testing.T) {
	bubble(t, "killed", func(t *testing.T) {
		sink := &recorder{}
		pod := newPod(apps("main"))
		first := started(t, Options{Sinks: []StatusSink{persistent{sink}}, Journal: newNotebook(true)})
		set(t, first, pod, message("ready"))
		advance(t, time.Second)
		recorded, _ := first.Get(pod.UID)
		set(t, first, pod, message("not ready")) // killed before this is recorded
		advance(t, time.Second)

		journal := newNotebook(true)
		m := started(t, Options{Sinks: []StatusSink{persistent{sink}}, Journal: journal})
		m.Restore(Restored{Pod: pod, Status: &recorded, Version: 1, Acked: map[string]Acked{"kept": {Version: 1, Target: pod.UID}}})
		m.Adopt(pod)
		set(t, m, pod, message("ready"))
		advance(t, time.Hour)
		set(t, m, pod, message("third"))
		advance(t, time.Hour)
		var texts []string
		for i, u := range sink.got(pod.UID) {
			texts = append(texts, u.Status.Message)
			if i > 0 && u.Version <= sink.got(pod.UID)[i-1].Version {
				t.Errorf("versions %v", versions(sink.got(pod.UID)))
			}
		}
		if want := []string{"ready", "not ready", "ready", "third"}; !slices.Equal(texts, want) {
			t.Errorf("sent %q, want %q", texts, want)
		}
		if changed, acked := journal.got(pod.UID); changed != acked || acked <= unrecorded {
			t.Errorf("recorded version %d, acknowledged %d", changed, acked)
		}
	})
}

// TestUnrecordedChangeAfterTheEnd: 9.3: a process that was killed may have sent a change of a pod
// that had ended. The next process sends nothing again, and never something else under that version.
func TestUnrecordedChangeAfterTheEnd(t *testing.T) {
	bubble(t, "killed", func(t *testing.T) {
		sink := &recorder{}
		pod := newPod(apps("main"), policy(v1.RestartPolicyNever))
		first := started(t, Options{Sinks: []StatusSink{persistent{sink}}, Journal: newNotebook(true)})
		set(t, first, pod, withPhase(v1.PodFailed, message("failed")))
		advance(t, time.Second)
		recorded, _ := first.Get(pod.UID)
		set(t, first, pod, withPhase(v1.PodFailed, message("failed, IP gone"))) // killed before this is recorded
		advance(t, time.Second)

		known := Restored{Pod: pod, Status: &recorded, Version: 1, Acked: map[string]Acked{"kept": {Version: 1, Target: pod.UID}}}
		gone := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{persistent{gone}}, Journal: newNotebook(true)})
		m.Restore(known)
		m.Forget(pod.UID)
		advance(t, time.Minute)
		if got := versions(gone.got(pod.UID)); !slices.Equal(got, []uint64{2 + unrecorded}) {
			t.Errorf("forgotten at once: sent %v", got)
		}

		m = started(t, Options{Sinks: []StatusSink{persistent{sink}}, Journal: newNotebook(true)})
		m.Restore(known)
		m.Adopt(pod)
		set(t, m, pod, &recorded)
		advance(t, time.Minute)
		if got := versions(sink.got(pod.UID)); !slices.Equal(got, []uint64{1, 2}) {
			t.Errorf("sent %v of an end that the sink has", got)
		}
		for range 2 {
			if err := m.TerminatePod(pod); err != nil {
				t.Fatal(err)
			}
			advance(t, time.Minute)
		}
		m.Forget(pod.UID)
		advance(t, time.Minute)
		got := sink.got(pod.UID)
		if want := []uint64{1, 2, 2 + unrecorded, 4 + unrecorded}; !slices.Equal(versions(got), want) || !got[2].Finished || !got[3].Forgotten {
			t.Errorf("sent %v, want %v", versions(got), want)
		}
	})
}

// TestConfirmedChangeIsRecordedOnce: 9.3: a status that is new and confirms the pod costs the journal
// one call.
func TestConfirmedChangeIsRecordedOnce(t *testing.T) {
	bubble(t, "restored", func(t *testing.T) {
		for text, pod := range map[string]*v1.Pod{"as it was": newPod(uid("same"), apps("main")), "new": newPod(uid("changed"), apps("main"))} {
			journal := newNotebook(true)
			m := started(t, Options{Sinks: []StatusSink{persistent{&recorder{}}}, Journal: journal})
			pod.Status = v1.PodStatus{} // its source has none
			known := message("as it was")
			known.StartTime, known.ObservedGeneration = &metav1.Time{Time: t0}, pod.Generation
			m.Restore(Restored{Pod: pod, Status: known, Version: 5})
			for range 3 {
				set(t, m, pod, message(text))
			}
			advance(t, time.Minute)
			if n := journal.calls; n != 1 {
				t.Errorf("%s: %d calls", text, n)
			}
		}
	})
}

// TestRestartCostsAnAPINothing: 9.3: what an API has acknowledged is not written again when a
// restarted process makes the same status, however often it restarts. It is read only if the pod's
// source does not show that status.
func TestRestartCostsAnAPINothing(t *testing.T) {
	for _, shown := range []bool{false, true} {
		bubble(t, fmt.Sprintf("delivered, and its source shows the status: %t", shown), func(t *testing.T) {
			pod := newPod(apps("main"))
			pod.Status = v1.PodStatus{}
			api := newAPI(pod)
			first := started(t, Options{Sinks: []StatusSink{api}, Journal: newNotebook(true)})
			set(t, first, pod, message("as it was"))
			advance(t, time.Minute)
			recorded, _ := first.Get(pod.UID)
			want := api.reads + 1
			if shown {
				pod, want = pod.DeepCopy(), api.reads
				pod.Status = recorded
			}
			m := started(t, Options{Sinks: []StatusSink{api}, Journal: newNotebook(true)})
			m.Restore(Restored{Pod: pod, Status: &recorded, Version: 1, Acked: map[string]Acked{m.Sinks()[0]: {Version: 1, Target: pod.UID}}})
			m.ObservePod(pod)
			set(t, m, pod, message("as it was"))
			advance(t, time.Minute)
			if api.reads != want || len(api.stores) != 1 {
				t.Errorf("%d reads, want %d; stored %v", api.reads, want, versions(api.stores))
			}
		})
	}
	bubble(t, "restarts", func(t *testing.T) {
		pod := newPod(apps("main"))
		pod.Status = v1.PodStatus{} // its source has none
		api := newAPI(pod)
		first := started(t, Options{Sinks: []StatusSink{api}, Journal: newNotebook(true)})
		set(t, first, pod, message("as it was"))
		advance(t, time.Minute)
		recorded, _ := first.Get(pod.UID)
		reads, version := api.reads, uint64(1)
		for range 3 {
			journal := newNotebook(true)
			m := started(t, Options{Sinks: []StatusSink{api}, Journal: journal})
			m.Restore(Restored{Pod: pod, Status: &recorded, Version: version, Acked: map[string]Acked{m.Sinks()[0]: {Version: version, Target: pod.UID}}})
			set(t, m, pod, message("as it was"))
			advance(t, time.Minute)
			changed, acked := journal.got(pod.UID)
			if changed <= version || acked != changed {
				t.Errorf("recorded version %d, acknowledged %d", changed, acked)
			}
			version = changed
		}
		if api.reads != reads || len(api.stores) != 1 {
			t.Errorf("%d reads, stored %v", api.reads-reads, versions(api.stores))
		}
	})
}

// TestRefusedStatusConfirmsNothing: 9.3: a status that is dropped says nothing about the remembered
// one, which may be older than what a sink has.
func TestRefusedStatusConfirmsNothing(t *testing.T) {
	bubble(t, "refused", func(t *testing.T) {
		sink := &recorder{}
		m := started(t, Options{Sinks: []StatusSink{persistent{sink}}, Journal: newNotebook(true)})
		pod := newPod(apps("main", "other"), policy(v1.RestartPolicyNever))
		over := oneContainer(v1.PodRunning, ended("x://1", 0))
		m.Restore(Restored{Pod: pod, Status: over, Version: 3})
		if err := m.SetPodStatus(pod, *oneContainer(v1.PodRunning, v1.ContainerStatus{})); err == nil {
			t.Fatal("a container left its end")
		}
		advance(t, time.Minute)
		if n := sink.count(); n != 0 {
			t.Errorf("%d sends after a refused status", n)
		}
		set(t, m, pod, over)
		advance(t, time.Minute)
		if n := sink.count(); n != 1 {
			t.Errorf("%d sends once it is confirmed", n)
		}
	})
}

// TestRefusedStatusSilencesNoNewSink: 9.3: a sink that has nothing from before the restart gets the
// remembered status, once, although no status of this process is accepted.
func TestRefusedStatusSilencesNoNewSink(t *testing.T) {
	bubble(t, "refused", func(t *testing.T) {
		fresh, kept := &recorder{}, &recorder{}
		m := started(t, Options{Sinks: []StatusSink{fresh, persistent{kept}}, Journal: newNotebook(true)})
		pod := newPod(apps("main", "other"), policy(v1.RestartPolicyNever))
		over := oneContainer(v1.PodRunning, ended("x://1", 0))
		m.Restore(Restored{Pod: pod, Status: over, Version: 3})
		advance(t, time.Minute)
		if n := fresh.count(); n != 0 {
			t.Errorf("%d sends before anything was looked at", n)
		}
		for range 10 {
			if err := m.SetPodStatus(pod, *oneContainer(v1.PodRunning, v1.ContainerStatus{})); err == nil {
				t.Fatal("a container left its end")
			}
			advance(t, time.Minute)
		}
		if got := versions(fresh.got(pod.UID)); !slices.Equal(got, []uint64{3 + unrecorded}) || kept.count() != 0 {
			t.Errorf("sent %v, and %d to a sink that keeps statuses", got, kept.count())
		}
		if err := m.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		set(t, m, pod, over)
		advance(t, time.Minute)
		if f, k := fresh.got(pod.UID), kept.got(pod.UID); len(k) != 1 || f[len(f)-1].Version != k[0].Version {
			t.Errorf("confirmed: sent %v and %v", versions(f), versions(k))
		}
	})
}

// TestHeldBackEndIsNotAcknowledged: 8.4, ND10: while the end of a pod is held back, no record says
// that a sink has it.
func TestHeldBackEndIsNotAcknowledged(t *testing.T) {
	bubble(t, "held", func(t *testing.T) {
		sink, journal := &recorder{}, newNotebook(true)
		m := started(t, Options{Sinks: []StatusSink{persistent{sink}}, Journal: journal})
		pod := newPod(apps("main"), policy(v1.RestartPolicyNever))
		runs := oneContainer(v1.PodRunning, goesOn("x://1", true))
		set(t, m, pod, runs)
		advance(t, time.Second)
		set(t, m, pod, withPhase(v1.PodFailed, runs))
		advance(t, time.Minute)
		changed, acked := journal.got(pod.UID)
		got := sink.got(pod.UID)
		if last := got[len(got)-1]; last.Status.Phase != v1.PodRunning || changed != 2 || acked != 1 {
			t.Errorf("the sink has %s, version %d, acknowledged %d", last.Status.Phase, changed, acked)
		}
		if err := m.Flush(t.Context()); err != nil {
			t.Errorf("Flush waits for what cannot be sent: %v", err)
		}
		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		advance(t, time.Minute)
		if changed, acked := journal.got(pod.UID); changed != 3 || acked != 3 {
			t.Errorf("at the end version %d, acknowledged %d", changed, acked)
		}
	})
}

// 9.11, CK4: a terminal status is sent when it would survive a
// crash, or after 60 s; any other is sent at once.
func TestTerminalStatusWaitsForTheJournal(t *testing.T) {
	for _, written := range []bool{true, false} {
		name := "never written"
		if written {
			name = "written after 20 s"
		}
		bubble(t, name, func(t *testing.T) {
			journal, sink := newNotebook(false), &recorder{}
			m := started(t, Options{Sinks: []StatusSink{sink}, Journal: journal})
			pod := newPod(apps("main"), policy(v1.RestartPolicyNever))
			set(t, m, pod, oneContainer(v1.PodRunning, goesOn("x://1", true)))
			advance(t, 0)
			if sink.count() != 1 {
				t.Fatalf("%d sends of a running pod", sink.count())
			}
			set(t, m, pod, oneContainer(v1.PodFailed, ended("x://1", 3)))
			advance(t, 20*time.Second)
			if sink.count() != 1 {
				t.Fatal("the end was sent before it was safe")
			}
			if written {
				journal.write()
				m.Persisted(pod.UID)
				advance(t, 0)
			} else {
				advance(t, 39*time.Second)
				if sink.count() != 1 {
					t.Fatal("the end was sent before the minute was over")
				}
				advance(t, 2*time.Second)
			}
			if got := sink.got(pod.UID); len(got) != 2 || got[1].Status.Phase != v1.PodFailed {
				t.Errorf("sent: %v", versions(got))
			}
		})
	}
}

// TestFlushWaitsForWhatTheJournalHolds (9.11): an end that is not on the disk yet counts as a
// change that the sink does not have.
func TestFlushWaitsForWhatTheJournalHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal, sink := newNotebook(false), &recorder{}
		m := started(t, Options{Sinks: []StatusSink{sink}, Journal: journal})
		pod := newPod(apps("main"), policy(v1.RestartPolicyNever))
		set(t, m, pod, oneContainer(v1.PodFailed, ended("x://1", 3)))
		advance(t, time.Second)
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := m.Flush(short); !errors.Is(err, context.DeadlineExceeded) || sink.count() != 0 {
			t.Errorf("while the journal has not written: %v, %d sends", err, sink.count())
		}
		journal.write()
		m.Persisted(pod.UID)
		if err := m.Flush(t.Context()); err != nil || sink.count() != 1 {
			t.Errorf("afterwards: %v, %d sends", err, sink.count())
		}
	})
}

// 9.6 and 9.8, row by row.
func TestStatusAfterARestart(t *testing.T) {
	conditions := func(s *v1.PodStatus, c ...v1.PodCondition) *v1.PodStatus { s.Conditions = c; return s }
	is := func(kind v1.PodConditionType, status v1.ConditionStatus, reason string) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: status, Reason: reason}
	}
	running := oneContainer(v1.PodRunning, goesOn("x://1", true))
	for _, tc := range []struct {
		name        string
		record, api *v1.PodStatus
		prefer      bool
		phase       v1.PodPhase
		code        int32 // of the container; -1: it runs, -2: it waits
		ready       bool
	}{
		{"it has no other writer", running, &v1.PodStatus{}, false, v1.PodRunning, -1, true},
		{"only the record has ended", oneContainer(v1.PodFailed, ended("x://1", 3)), running, false, v1.PodFailed, 3, false},
		{"only the API has", running, oneContainer(v1.PodSucceeded, ended("x://1", 0)), true, v1.PodSucceeded, 0, false},
		{"both, in different ways", oneContainer(v1.PodFailed, ended("x://1", 3)), oneContainer(v1.PodSucceeded, goesOn("x://1", false)), true, v1.PodSucceeded, 3, false},
		{"the API has no details", oneContainer(v1.PodFailed, ended("x://1", 3)), &v1.PodStatus{Phase: v1.PodFailed}, true, v1.PodFailed, 3, false},
		{"the record is newer", running, oneContainer(v1.PodPending, v1.ContainerStatus{}), true, v1.PodRunning, -1, true},
		{"the API is newer", oneContainer(v1.PodPending, v1.ContainerStatus{}), running, false, v1.PodRunning, -1, true},
		{"an end in the API beats running in the record", running, oneContainer(v1.PodRunning, ended("x://1", 9)), true, v1.PodRunning, 9, false},
		{"but not of another run", oneContainer(v1.PodRunning, goesOn("x://2", true)), oneContainer(v1.PodRunning, ended("x://1", 9)), true, v1.PodRunning, -1, true},
		{
			"9.8: the node was declared lost", running,
			conditions(oneContainer(v1.PodRunning, goesOn("x://1", true)), is(v1.PodReady, v1.ConditionFalse, "NodeLost"), is(v1.ContainersReady, v1.ConditionTrue, "")),
			true, v1.PodRunning, -1, false,
		},
		{
			"9.8: a gate is no such word", running,
			conditions(oneContainer(v1.PodRunning, goesOn("x://1", true)), is(v1.PodReady, v1.ConditionFalse, reasonGatesNotReady), is(v1.ContainersReady, v1.ConditionTrue, "")),
			true, v1.PodRunning, -1, true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			record, api := tc.record.DeepCopy(), tc.api.DeepCopy()
			got := afterRestart(tc.record, tc.api, tc.prefer)
			cs := got.ContainerStatuses[0]
			code := int32(-2)
			switch {
			case cs.State.Running != nil:
				code = -1
			case cs.State.Terminated != nil:
				code = cs.State.Terminated.ExitCode
			}
			if got.Phase != tc.phase || code != tc.code || cs.Ready != tc.ready {
				t.Errorf("phase %s, code %d, ready %v", got.Phase, code, cs.Ready)
			}
			if !equalStatus(record, tc.record, 1<<20) || !equalStatus(api, tc.api, 1<<20) {
				t.Error("an argument was changed")
			}
		})
	}

	// Always: the higher count, the API's start, foreign conditions and 6.8 from it.
	record := oneContainer(v1.PodRunning, v1.ContainerStatus{RestartCount: 4})
	record.StartTime = &metav1.Time{Time: t1}
	record.Conditions = []v1.PodCondition{is("example.com/old", v1.ConditionTrue, "")}
	api := oneContainer(v1.PodRunning, v1.ContainerStatus{RestartCount: 2})
	api.StartTime, api.NominatedNodeName = &metav1.Time{Time: t0}, "n2"
	api.Conditions = []v1.PodCondition{is("example.com/new", v1.ConditionTrue, "")}
	got := afterRestart(record, api, true)
	if got.ContainerStatuses[0].RestartCount != 4 || !got.StartTime.Equal(&metav1.Time{Time: t0}) || got.NominatedNodeName != "n2" ||
		conditionOf(got.Conditions, "example.com/new") == nil || conditionOf(got.Conditions, "example.com/old") != nil {
		t.Errorf("%+v", got)
	}
}

// 9.6: a status was sent, and the process was killed before its record was written: what the API
// shows keeps its transition times. What only the record has is newer; what has the same time is the record's.
func TestTransitionsAfterARestart(t *testing.T) {
	at := func(kind v1.PodConditionType, is v1.ConditionStatus, when time.Time) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: is, LastTransitionTime: metav1.NewTime(when)}
	}
	record, api := oneContainer(v1.PodPending, v1.ContainerStatus{}), oneContainer(v1.PodRunning, goesOn("x://1", true))
	record.Conditions = []v1.PodCondition{at(v1.PodReady, v1.ConditionFalse, t0), at(v1.PodInitialized, v1.ConditionTrue, t1), at(v1.ContainersReady, v1.ConditionFalse, t1)}
	api.Conditions = []v1.PodCondition{at(v1.PodReady, v1.ConditionTrue, t1), at(v1.PodInitialized, v1.ConditionFalse, t0), at(v1.ContainersReady, v1.ConditionTrue, t1)}
	got := afterRestart(record, api, true)
	for _, want := range []v1.PodCondition{api.Conditions[0], record.Conditions[1], record.Conditions[2]} {
		if c := conditionOf(got.Conditions, want.Type); c == nil || *c != want {
			t.Errorf("%+v, want %+v", c, want)
		}
	}
	if record.Conditions[0].Status != v1.ConditionFalse {
		t.Error("an argument was changed")
	}
}

// TestTransitionOfTheSameSecondStays: 5.7, 9.6: a condition took two values within one second, and the process was killed
// when only one of the API and the record had the second. Whichever value the next process finds, and however it learns
// of it, the transition time that the API shows for it stays. A later transition has a time of its own.
func TestTransitionOfTheSameSecondStays(t *testing.T) {
	conditions := func(is v1.ConditionStatus, when time.Time) []v1.PodCondition {
		return []v1.PodCondition{
			{Type: v1.PodReady, Status: is, LastTransitionTime: metav1.NewTime(when)},
			{Type: v1.ContainersReady, Status: is, LastTransitionTime: metav1.NewTime(when)},
		}
	}
	for name, c := range map[string]struct {
		record, api, now v1.ConditionStatus
		recorded, shown  time.Time
		want             time.Time
	}{
		"the API has the later value":                    {record: "False", api: "True", now: "True", recorded: t0, shown: t0, want: t0},
		"the record has the later value":                 {record: "True", api: "False", now: "True", recorded: t0, shown: t0, want: t0},
		"the record has the later value, which has gone": {record: "True", api: "False", now: "False", recorded: t0, shown: t0, want: t0},
		"the API's value has gone":                       {record: "True", api: "True", now: "False", recorded: t0, shown: t0, want: t1},
		"the API's value is an older one":                {record: "False", api: "True", now: "True", recorded: t0, shown: t0.Add(-time.Second), want: t1},
	} {
		for _, probed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, probed %t", name, probed), func(t *testing.T) {
				clk := clocktesting.NewFakeClock(t1)
				m := NewManager(Options{Clock: clk})
				of := func(is v1.ConditionStatus, when time.Time) *v1.PodStatus {
					s := oneContainer(v1.PodRunning, goesOn("x://1", is == v1.ConditionTrue))
					s.Conditions, s.ObservedGeneration = conditions(is, when), 1
					return s
				}
				m.Restore(Restored{Pod: newPod(apps("main")), Status: of(c.record, c.recorded), Version: 3})
				pod := newPod(apps("main"))
				pod.Status = *of(c.api, c.shown)
				m.Adopt(pod)
				if probed {
					m.SetContainerReadiness(pod.UID, runtime.ContainerID{Runtime: "x", ID: "1"}, c.now == v1.ConditionTrue)
				} else if err := m.SetPodStatus(pod, *of(c.now, t1)); err != nil {
					t.Fatal(err)
				}
				got, _ := m.Get(pod.UID)
				for _, is := range got.Conditions {
					if is.Status != c.now || !is.LastTransitionTime.Equal(&metav1.Time{Time: c.want}) {
						t.Errorf("%s is %s since %s, want %s since %s", is.Type, is.Status, is.LastTransitionTime, c.now, c.want)
					}
				}
			})
		}
	}
}

// 9.4, 9.6: for the same run, the ends that either side knows are kept, both of this run and of the
// one before.
func TestEndsAfterARestart(t *testing.T) {
	end := func(id string, code int32) v1.ContainerState { return ended(id, code).State }
	guess := func(id string) v1.ContainerState {
		s := end(id, 137)
		s.Terminated.Reason = reasonUnknown
		return s
	}
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	code := func(s v1.ContainerState) int32 {
		if s.Terminated == nil {
			return -1
		}
		return s.Terminated.ExitCode
	}
	for name, tc := range map[string]struct {
		state, last       v1.ContainerState // in what is preferred
		otherNow, other   v1.ContainerState // in what is not
		wantState, wanted int32
	}{
		"a guess at this run":         {guess("x://2"), end("x://1", 4), end("x://2", 5), end("x://1", 4), 5, 4},
		"a guess at the run before":   {runs, guess("x://1"), runs, end("x://1", 4), -1, 4},
		"guesses at both":             {guess("x://2"), guess("x://1"), end("x://2", 5), end("x://1", 4), 5, 4},
		"the other side guesses":      {end("x://2", 5), end("x://1", 4), guess("x://2"), guess("x://1"), 5, 4},
		"the run before is not known": {runs, v1.ContainerState{}, runs, end("x://1", 4), -1, 4},
		"it waits after this run":     {waits, end("x://2", 5), end("x://2", 5), end("x://1", 4), 5, 4},
		"both wait after this run":    {waits, end("x://2", 5), waits, guess("x://2"), -1, 5},
	} {
		of := func(state, last v1.ContainerState) *v1.PodStatus {
			return oneContainer(v1.PodRunning, v1.ContainerStatus{ContainerID: "x://2", State: state, LastTerminationState: last})
		}
		got := afterRestart(of(tc.state, tc.last), of(tc.otherNow, tc.other), true).ContainerStatuses[0]
		if code(got.State) != tc.wantState || code(got.LastTerminationState) != tc.wanted {
			t.Errorf("%s: state %+v, last state %+v", name, got.State, got.LastTerminationState)
		}
	}
}

// TestRecordThatLostItsMessagesTakesNoneAway: 9.6, 9.11: a record that was too long has lost
// messages, or their beginnings; the API's copy of the same end keeps its own.
func TestRecordThatLostItsMessagesTakesNoneAway(t *testing.T) {
	end := func(id, text string) v1.ContainerState {
		s := ended(id, 3).State
		s.Terminated.Message = text
		return s
	}
	guess := end("x://1", "not found")
	guess.Terminated.Reason = reasonUnknown
	for name, tc := range map[string]struct {
		ours, theirs v1.ContainerState
		want         string
	}{
		"a guess":              {end("x://1", ""), guess, ""},
		"without an ID":        {end("", ""), end("", "cannot open config"), ""},
		"lost":                 {end("x://1", ""), end("x://1", "cannot open config"), "cannot open config"},
		"cut":                  {end("x://1", "config"), end("x://1", "cannot open config"), "cannot open config"},
		"only the record's":    {end("x://1", "cannot open config"), end("x://1", ""), "cannot open config"},
		"the record's differs": {end("x://1", "ours"), end("x://1", "theirs"), "ours"},
		"another run":          {end("x://1", ""), end("x://0", "cannot open config"), ""},
	} {
		for _, last := range []bool{false, true} {
			of := func(s v1.ContainerState) *v1.PodStatus {
				cs := v1.ContainerStatus{ContainerID: "x://1", State: s}
				if last {
					cs = goesOn("x://2", true)
					cs.LastTerminationState = s
				}
				return oneContainer(v1.PodRunning, cs)
			}
			cs := afterRestart(of(tc.ours), of(tc.theirs), true).ContainerStatuses[0]
			got := cs.State
			if last {
				got = cs.LastTerminationState
			}
			if got.Terminated.Message != tc.want {
				t.Errorf("%s (last state: %t): %q, want %q", name, last, got.Terminated.Message, tc.want)
			}
		}
	}
}

// 9.6: the merge happens once, when the source names the pod, and makes a
// version only if it changes something.
func TestAdoptMergesOnce(t *testing.T) {
	journal := newNotebook(true)
	m := NewManager(Options{Journal: journal})
	m.Restore(Restored{Pod: newPod(apps("main")), Status: oneContainer(v1.PodRunning, goesOn("x://1", true)), Version: 3})
	api := newPod(apps("main"))
	api.Status = *oneContainer(v1.PodFailed, ended("x://1", 4))
	before := version(m, "uid-1")
	m.Adopt(api)
	if s, _ := m.Get("uid-1"); s.Phase != v1.PodFailed || version(m, "uid-1") != before+1 {
		t.Errorf("phase %s, version %d", s.Phase, version(m, "uid-1"))
	}
	if changed, _ := journal.got("uid-1"); changed != before+1 {
		t.Errorf("the journal has version %d", changed)
	}
	again := newPod(apps("main"))
	m.Adopt(again)
	if version(m, "uid-1") != before+1 {
		t.Error("it was merged twice")
	}
	m.Adopt(newPod(uid("unknown")))
}

// TestFinishedWaitsForJournal: 9.1, 9.11: that a pod is finished is sent once it would survive a
// crash, whether its phase is terminal or not; its phase does not wait for that. A journal that
// never writes delays it only for a limited time.
func TestFinishedWaitsForJournal(t *testing.T) {
	for _, phase := range []v1.PodPhase{v1.PodFailed, v1.PodRunning} {
		bubble(t, string(phase), func(t *testing.T) {
			for _, written := range []bool{true, false} {
				journal := newNotebook(true)
				journal.unfinished = true
				sink := &recorder{}
				m := started(t, Options{Sinks: []StatusSink{sink}, Journal: journal, HoldTerminal: time.Hour})
				pod := newPod(apps("main"), static)
				set(t, m, pod, oneContainer(phase, ended("x://1", 3)))
				advance(t, 11*time.Second)
				if err := m.TerminatePod(pod); err != nil {
					t.Fatal(err)
				}
				advance(t, time.Minute)
				last := func() Update { told := sink.got(pod.UID); return told[len(told)-1] }
				if u := last(); u.Finished || u.Status.Phase != phase {
					t.Errorf("%s: told too soon: %+v", phase, u)
				}
				if written {
					journal.mu.Lock()
					journal.unfinished = false
					journal.mu.Unlock()
					m.Persisted(pod.UID)
					advance(t, time.Second)
				} else {
					advance(t, time.Hour)
				}
				if u := last(); !u.Finished {
					t.Errorf("%s: not told: %+v", phase, u)
				}
			}
		})
	}
}

// TestDeleteWaitsForJournal: 9.2: a pod is deleted once the fact that it is finished would survive
// a crash.
func TestDeleteWaitsForJournal(t *testing.T) {
	bubble(t, "delete", func(t *testing.T) {
		journal := newNotebook(false)
		api := &deleting{recorder: &recorder{}}
		m := started(t, Options{Sinks: []StatusSink{api}, Journal: journal, HoldTerminal: time.Hour})
		pod := newPod(apps("main"), deleted)
		set(t, m, pod, oneContainer(v1.PodFailed, ended("x://1", 3)))
		if err := m.TerminatePod(pod); err != nil {
			t.Fatal(err)
		}
		advance(t, time.Minute)
		if api.deleted != 0 {
			t.Error("deleted before it was safe")
		}
		journal.write()
		m.Persisted(pod.UID)
		advance(t, 11*time.Second)
		if api.deleted != 1 {
			t.Errorf("deleted %d times", api.deleted)
		}
	})
}

// deleting is a recorder that deletes pods.
type deleting struct {
	*recorder
	deleted int
}

func (d *deleting) DeletePod(context.Context, PodRef) error { d.deleted++; return nil }
