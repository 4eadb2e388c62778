package machine

import (
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// update applies one UpdatePod call: rules U1 to U13, in this order.
func (m *Machine) update(u *Update) Outcome {
	uid, runtimeOnly, ok := identify(u)
	if !ok {
		m.reject(uid, u, KillNotRequested)
		return OutcomeIgnoredInvalid
	}
	if m.stopping || m.draining {
		m.reject(uid, u, KillStopped)
		return OutcomeStopped
	}
	return m.accept(uid, u, runtimeOnly)
}

// accept applies a valid update.
func (m *Machine) accept(uid types.UID, u *Update, runtimeOnly bool) Outcome {
	r := m.records[uid]
	if u.Type == TypeRestart {
		u.Type = TypeCreate
		if r != nil && r.finished { // R2: in one step with the creation
			m.forget(r, KillAlreadyTerminated)
			r = nil
		}
	}
	if r == nil { // U2
		r = &record{uid: uid, syncedAt: m.now, since: m.now}
		m.records[uid] = r
		if !runtimeOnly && podinfo.Terminal(u.Pod.Status.Phase) && u.ViewStopped { // U3
			r.terminated, r.startedTerminating = true, true // U7 requests the termination
		}
	} else if deleting(u.Pod) {
		r.restartRequested = false // U5: deleted again before its next life began
	} else if r.terminating && u.Type == TypeCreate { // U5
		if !r.restartRequested {
			r.restartRequested, r.extra().wantedAt = true, m.now
		}
		m.reject(uid, u, KillNotRequested)
		m.note(r, reasonRestart)
		return OutcomeRestartRemembered
	}
	next := spec{pod: u.Pod, mirror: u.Mirror}
	if runtimeOnly {
		next = m.runtimeKill(r, u.Running)
	}
	if u.Type == TypeKill && u.Running != nil && u.Running.UID == uid { // U1
		r.observedRuntime = true
	}
	if r.finished { // U6
		m.reject(uid, u, KillAlreadyTerminated)
		return OutcomeIgnoredFinished
	}
	began := m.requestTermination(r, u, next.pod, runtimeOnly) // U7
	shrunk := false
	switch {
	case r.terminated: // U8
		m.reject(uid, u, KillAlreadyTerminated)
		if runtimeOnly {
			return OutcomeIgnoredStale
		}
	case r.terminating: // U9
		if u.Kill != nil {
			m.addKill(r, u.Kill)
		}
		shrunk = r.shrinkGrace(next.pod, u.Kill)
	default: // U10
		m.reject(uid, u, KillNotRequested)
	}
	if next.pod != nil {
		r.setStatic(next.pod)
	}
	if r.static && !r.begun() { // U11
		m.wait(r)
	}
	merged := m.put(r, u, next) // U12
	switch {                    // U13
	case began:
		m.cancel(r, CauseTerminating)
	case shrunk:
		m.cancel(r, CauseGraceShrunk)
	}
	if began && r.static {
		m.wakeNext(r.rare.fullName) // it no longer wants its turn
	}
	m.note(r, reasonUpdate+Reason(u.Type))
	if merged {
		return OutcomeMerged
	}
	return OutcomeQueued
}

// wake plans another round of a pod as it was last given (U14).
func (m *Machine) wake(uid types.UID) Outcome {
	r := m.records[uid]
	switch {
	case r == nil || r.finished || r.pod() == nil:
		return OutcomeIgnoredFinished
	case r.hasPending: // the pending update plans the same
		return OutcomeMerged
	}
	return m.update(&Update{Type: TypeSync, Pod: r.pod()})
}

// identify checks an update. A runtime pod given together with a pod only says that the pod
// was seen in the runtime (U1).
func identify(u *Update) (uid types.UID, runtimeOnly, ok bool) {
	if u.Pod != nil {
		return u.Pod.UID, false, u.Pod.UID != ""
	}
	if u.Running == nil || u.Running.UID == "" {
		return "", false, false
	}
	return u.Running.UID, true, u.Type == TypeKill
}

// reject completes the kill options of an update at once. A channel that the record
// already has stays open: it is closed later, once (Q5).
func (m *Machine) reject(uid types.UID, u *Update, how KillOutcome) {
	if u.Kill == nil {
		return
	}
	r := m.records[uid]
	if r == nil {
		r = &record{uid: uid}
	}
	if !r.repeated(u.Kill.Completion) {
		m.closeNow(r, u.Kill.Completion, how)
	}
}

// repeated reports whether the record already has this channel, and if so adopts
// the outcome.
func (r *record) repeated(c Completion) bool {
	if r.rare == nil || c.Ch == nil {
		return false
	}
	if !slices.ContainsFunc(r.rare.completions, func(o Completion) bool { return o.Ch == c.Ch }) {
		return false
	}
	if c.Outcome != nil { // filled in before the channel is closed
		r.rare.completions = slices.Insert(r.rare.completions, 0, Completion{Outcome: c.Outcome})
	}
	return true
}

// runtimeKill returns the content of an update that names only a runtime pod: the
// full pod if it is known, because termination works better with it (U4).
func (m *Machine) runtimeKill(r *record, running *runtime.Pod) spec {
	if pod := r.pod(); pod != nil {
		return spec{pod: pod}
	}
	return spec{running: running}
}

// requestTermination latches why the pod has to stop, and reports whether that
// is new (U7).
func (m *Machine) requestTermination(r *record, u *Update, pod *v1.Pod, runtimeOnly bool) bool {
	evict := u.Kill != nil && u.Kill.Evict
	deleted := deleting(pod)
	began := !r.terminating && (runtimeOnly || deleted || pod != nil && podinfo.Terminal(pod.Status.Phase) || u.Type == TypeKill)
	if began {
		r.terminating = true
		r.attempts = 0
	}
	if r.terminating {
		// Unlike in the kubelet, later causes and several at once count too:
		// the first cause must not hide the others.
		r.deleted = r.deleted || deleted || runtimeOnly && !r.startedTerminating
		r.evicted = r.evicted || evict
	}
	return began
}

func deleting(pod *v1.Pod) bool { return pod != nil && pod.DeletionTimestamp != nil }

// addKill adopts the completion and the status function of a kill.
func (m *Machine) addKill(r *record, k *Kill) {
	if k.StatusFunc != nil {
		x := r.extra()
		x.statusFunc, x.newAmend = k.StatusFunc, true
	}
	c := k.Completion
	if c.Ch == nil && c.Outcome == nil {
		return
	}
	if !r.repeated(c) {
		x := r.extra()
		x.completions = append(x.completions, c)
	}
}

// shrinkGrace computes the grace period (section 5) and reports whether a known
// one got shorter (G4).
func (r *record) shrinkGrace(pod *v1.Pod, k *Kill) bool {
	before := r.grace
	if before == 0 && r.startedTerminating { // its calls were given nil: the spec's period (G7)
		before = specGrace(r.pod())
	}
	var candidates [2]*int64
	if pod == nil { // G8
		one := int64(1)
		candidates[0] = &one
	} else {
		candidates[0] = pod.DeletionGracePeriodSeconds
	}
	if k != nil {
		candidates[1] = k.Grace
	}
	for _, c := range candidates { // G1
		if c == nil {
			continue
		}
		if seconds := max(*c, 1); r.grace == 0 || seconds < r.grace {
			r.grace = seconds
		}
	}
	if r.grace == 0 { // G2, G3
		r.grace = specGrace(pod)
	}
	if before == 0 {
		return false
	}
	r.grace = min(r.grace, before) // I5
	return r.grace < before
}

// stopGrace returns how long the pod may take to stop, in seconds, as far as that is known; 0
// if there is no record.
func (r *record) stopGrace() int64 {
	if r == nil {
		return 0
	}
	if r.grace > 0 {
		return r.grace
	}
	return specGrace(r.pod())
}

// specGrace returns the grace period of the pod's spec, at least 1.
func specGrace(pod *v1.Pod) int64 {
	if pod == nil || pod.Spec.TerminationGracePeriodSeconds == nil {
		return 1
	}
	return max(*pod.Spec.TerminationGracePeriodSeconds, 1)
}

func (r *record) setStatic(pod *v1.Pod) {
	if !r.static && podinfo.Static(pod) {
		r.static = true
		r.extra().fullName = podinfo.FullName(pod.Namespace, pod.Name)
	}
}

// put replaces the pending update and makes the record ready (U12). It reports
// whether an update that had not been taken was replaced.
func (m *Machine) put(r *record, u *Update, next spec) bool {
	merged := r.hasPending
	if merged && next.mirror == nil {
		next.mirror = r.pending.mirror
	}
	if !merged || !r.hasStart || u.HasStart && u.Start < r.pendingStart {
		r.pendingStart, r.hasStart = u.Start, u.HasStart
	}
	if r.attempts > 0 && specChanged(r.active.pod, next.pod) { // L5
		r.attempts = 0
	}
	r.pending, r.pendingType, r.hasPending = next, u.Type, true
	if r.step == idle {
		m.enqueue(r)
	}
	return merged
}

// specChanged compares the specs themselves only if there is no generation to compare.
func specChanged(before, after *v1.Pod) bool {
	if before == nil || after == nil || before == after {
		return false
	}
	if before.Generation != 0 || after.Generation != 0 {
		return before.Generation != after.Generation
	}
	return !reflect.DeepEqual(&before.Spec, &after.Spec)
}
