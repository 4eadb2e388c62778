package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// SyncPod compares the pod with what the runtime showed in status and takes the
// next steps towards it, in the order of spec/runtime.md 7. A nil status means that
// the runtime shows nothing of the pod. pod and status are only read.
//
// It blocks while the runtime works, pulls, hooks and stops included. It returns
// soon after ctx ends. It must not run concurrently for the same pod.
func (m *Manager) SyncPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) Result {
	cgroup := m.lookForCgroup(pod)
	plan := m.computeActions(pod, status, cgroup)
	s := &podSync{m: m, pod: pod, status: status, plan: plan, began: m.options.Clock.Now()}
	m.rememberOwn(ctx, pod, plan.Own)
	if plan.Empty() && cgroup.exists {
		m.RefreshVolumes(ctx, pod)
		s.finishResize()
		return s.result
	}
	if err := checkNames(pod); err != nil {
		s.fail(stepCreateSandbox, pod.Name, reasonConfigPodSandboxError, err)
		m.podEvent(pod, v1.EventTypeWarning, "FailedCreatePodSandBox", "Invalid pod: %v", err)
		return s.result
	}
	if s.ensureCgroup(ctx, cgroup) {
		s.run(ctx)
		s.finishResize()
	}
	if !s.wroteFiles && (s.result.Err != nil || !plan.KillPod && len(plan.Reset) == 0) {
		m.RefreshVolumes(ctx, pod) // what this step failed at must not keep them from the containers that run
	}
	return s.result
}

// computeActions decides with the latest probe results.
func (m *Manager) computeActions(pod *v1.Pod, status *runtime.PodStatus, cgroup foundCgroup) actions.Plan {
	in := actions.Input{Pod: pod, Status: status, Outside: cgroup.missing() && status.ContainersRunning()}
	if m.options.Probes != nil {
		in.Probes = m.probeResults(pod, status)
	}
	in.Resizes, in.Asked = m.resizes(pod, status), m.asked(pod.UID)
	plan := actions.Compute(in)
	if plan.SandboxID != "" && !plan.KillPod && len(plan.Reset) == 0 && m.podResized(pod) {
		plan.ResizePod = true
	}
	return plan
}

// probeResults takes a snapshot of the results that matter. It is never nil.
func (m *Manager) probeResults(pod *v1.Pod, status *runtime.PodStatus) map[runtime.ContainerID]actions.Probes {
	out := map[runtime.ContainerID]actions.Probes{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].StartupProbe == nil && list[i].LivenessProbe == nil {
				continue
			}
			record := status.Container(list[i].Name)
			if record == nil || record.State != runtime.Running {
				continue
			}
			startup, liveness := m.options.Probes.ProbeResults(record.ID)
			out[record.ID] = actions.Probes{Startup: startup, Liveness: liveness}
		}
	}
	return out
}

// podSync is one run of SyncPod.
type podSync struct {
	m      *Manager
	pod    *v1.Pod
	status *runtime.PodStatus
	plan   actions.Plan
	result Result
	// held is true if the pod must not have a new sandbox yet.
	held bool
	// began is when the sync began: it decides the pod's place among those that wait for their turn.
	began time.Time

	// secrets are the pod's pull secrets, once secretsRead; secretsMissing: some could not
	// be read.
	secrets                     []*v1.Secret
	secretsRead, secretsMissing bool
	// credentialsMissing: a source of credentials failed.
	credentialsMissing bool

	// startedID is the container that was started last, empty if none was.
	startedID     string
	sandboxID     string
	sandboxConfig *runtimeapi.PodSandboxConfig
	// handler is the runtime class's, users the range of the pod's own user
	// namespace, nil if it shares the node's.
	handler string
	users   *criconfig.IDMapping
	// podIPs are the addresses that containers are told; on the host network the
	// node's.
	podIPs  []string
	volumes volumeState
	// wroteFiles is true if this sync has made the volumes, and so written their files.
	wroteFiles bool
	// lifted is true if this sync started, or tried to start, a container that lifts the pod's CPU quota.
	lifted bool
	// changes signals changes of what volumes show since they were read.
	changes <-chan struct{}
}

// run does the steps of spec/runtime.md 7 and stops where that says so.
func (s *podSync) run(ctx context.Context) {
	// Before the volumes are read: what changes after that is heard.
	var done func()
	s.changes, done = s.m.refreshes.hear(s.pod.UID)
	defer done()
	if len(s.plan.Reset) > 0 {
		s.reset(ctx)
		return
	}
	if s.plan.CreateSandbox && !s.checkSandboxPace() && !s.anythingRuns() {
		return
	}
	if s.plan.KillPod {
		if !s.killPod(ctx) || !s.plan.CreateSandbox {
			return
		}
	} else if !s.killContainers(ctx) {
		return
	}
	if len(s.plan.StartInit) > 0 && !s.plan.KillPod {
		s.pruneInit(ctx)
	}
	s.sandboxID = s.plan.SandboxID
	if s.status != nil {
		s.podIPs = s.status.IPs
	}
	if s.plan.CreateSandbox || s.plan.Starts() {
		s.setUpVolumes(ctx)
		s.wroteFiles = true
	}
	if s.plan.CreateSandbox && !s.createSandbox(ctx) {
		return
	}
	if s.pod.Spec.HostNetwork {
		s.podIPs = s.m.options.HostIPs()
	}
	s.startContainers(ctx)
}

// startContainers starts the containers of the plan, one after the other.
func (s *podSync) startContainers(ctx context.Context) {
	if s.plan.Starts() && s.sandboxConfig == nil && !s.configureSandbox(ctx) {
		return
	}
	if s.plan.Starts() {
		s.pullImageVolumes(ctx)
	}
	for _, i := range s.plan.StartEphemeral {
		s.start(ctx, ephemeralMember(s.pod, i))
	}
	for _, i := range s.plan.StartInit {
		// The next containers wait for a regular init container, not for a
		// sidecar that could not start.
		if c := initMember(s.pod, i); s.start(ctx, c) != nil && c.kind == meta.Init {
			return
		}
	}
	s.resize(ctx)
	for _, i := range s.plan.StartApp {
		s.start(ctx, appMember(s.pod, i))
	}
}

// start starts one container and records the outcome. Nothing is recorded after
// ctx has ended: the caller has other plans for the pod.
func (s *podSync) start(ctx context.Context, c member) error {
	if err := ctx.Err(); err != nil {
		s.stopped(err)
		return err
	}
	failure := s.startContainer(ctx, c)
	if err := ctx.Err(); failure != nil && err != nil {
		s.stopped(err)
		return err
	}
	r := Action{Step: stepStartContainer, Target: c.spec.Name}
	if failure != nil {
		r.Reason, r.Message, r.RetryAt = failure.reason, failure.message, failure.retryAt
		r.Err = failure
		s.result.Err = errors.Join(s.result.Err, failure)
		s.retryAt(failure.RetryAt())
	}
	s.result.Actions = append(s.result.Actions, r)
	s.m.noteStart(s.pod.UID, r)
	s.m.notePace(s.pod, c.spec, failure)
	if failure == nil || !failure.held {
		s.m.metrics.container(ctx, c.kind, r)
	}
	return r.Err
}

// stopped notes, once, that the sync was cut short.
func (s *podSync) stopped(err error) {
	if !errors.Is(s.result.Err, err) {
		s.result.Err = errors.Join(s.result.Err, err)
	}
}

// retryAt keeps the earliest moment at which another sync makes sense.
func (s *podSync) retryAt(at time.Time) {
	if !at.IsZero() && (s.result.RetryAt.IsZero() || at.Before(s.result.RetryAt)) {
		s.result.RetryAt = at
	}
}

// done records an action that succeeded.
func (s *podSync) done(step, target, reason, message string) {
	s.result.Actions = append(s.result.Actions, Action{Step: step, Target: target, Reason: reason, Message: message})
}

// fail records an action that failed.
func (s *podSync) fail(step, target, reason string, err error) {
	err = fmt.Errorf("%s: %s: %w", reason, target, err)
	s.result.Actions = append(s.result.Actions, Action{
		Step: step, Target: target, Reason: reason, Message: err.Error(), Err: err,
	})
	s.result.Err = errors.Join(s.result.Err, err)
}

// killPod stops everything and, if a new sandbox follows, clears the records of init
// containers so that init runs again (spec/runtime.md 6.2).
func (s *podSync) killPod(ctx context.Context) bool {
	if s.plan.CreateSandbox && s.plan.Replaced != "" {
		s.m.podEvent(s.pod, v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	// Dead sandboxes are stopped again only to make room for a new one. Otherwise
	// their removal releases what they still hold.
	k := killOfStatus(s.pod, s.status)
	k.reasons = s.plan.Kill
	if k.alive || (s.plan.CreateSandbox && !k.empty()) {
		s.result.Acted = true
		if err := s.m.kill(ctx, k, nil); err != nil {
			s.fail(stepKillPod, s.pod.Name, reasonKillPodSandboxError, err)
			if ctx.Err() == nil {
				s.m.killFailed(k, err)
			}
			return false
		}
		s.done(stepKillPod, s.pod.Name, "", "")
	}
	if !s.plan.CreateSandbox || s.status == nil {
		return true
	}
	for i := range s.pod.Spec.InitContainers {
		name := s.pod.Spec.InitContainers[i].Name
		for _, record := range s.status.Containers {
			// With the record, init would look done.
			if record.Name == name && !s.remove(ctx, record) {
				return false
			}
		}
	}
	return true
}

// killContainers stops single containers; the first error ends the sync, unless it is about a
// restart that was asked for.
func (s *podSync) killContainers(ctx context.Context) bool {
	if len(s.plan.Kill) > 0 {
		defer s.keepFresh(ctx)()
	}
	if !s.stopAsked(ctx) {
		return false
	}
	for _, k := range s.plan.Kill {
		if k.Reason == actions.Requested {
			continue
		}
		c, _ := memberNamed(s.pod, k.Spec.Name)
		t := newTarget(s.pod, c, k.Record.ID.ID, k.Record.State)
		t.grace = terminationGrace(graceSources{pod: s.pod, probe: probeGrace(k)})
		t.message = killMessage(k)
		s.result.Acted = true
		if err := s.m.stop(ctx, t, nil); err != nil {
			s.fail(stepKillContainer, k.Record.Name, reasonKillContainerError, err)
			return false
		}
		s.done(stepKillContainer, k.Record.Name, string(k.Reason), t.message)
	}
	return true
}

// killMessage is the text of the Killing event.
func killMessage(k actions.Kill) string {
	why := map[actions.KillReason]string{
		actions.Changed:       "definition changed",
		actions.StateUnknown:  "is in an unknown state",
		actions.StartupProbe:  "failed its startup probe",
		actions.LivenessProbe: "failed its liveness probe",
		actions.Resized:       "has new resources",
		actions.Requested:     "was asked to restart",
	}[k.Reason]
	message := fmt.Sprintf("Container %s %s", k.Record.Name, why)
	if k.Restart {
		message += ", will be restarted"
	}
	return message
}

// pruneInit removes old records of init containers; the newest ended one of each
// name stays. A failure leaves a record for the next sync.
func (s *podSync) pruneInit(ctx context.Context) {
	for i := range s.pod.Spec.InitContainers {
		c := &s.pod.Spec.InitContainers[i]
		kept := false
		for _, record := range s.status.Containers {
			if record.Name != c.Name || (record.State != runtime.Exited && record.State != runtime.Unknown) {
				continue
			}
			if !kept {
				kept = true
				continue
			}
			if err := s.m.removeRecord(ctx, s.pod.UID, record.Name, record.ID); err != nil {
				s.m.options.Logger.Error(err, "Old init container record stays", "podUID", s.pod.UID, "container", c.Name)
				continue
			}
			s.result.Acted = true
		}
	}
}

// remove removes one record, as part of the plan.
func (s *podSync) remove(ctx context.Context, record *runtime.ContainerStatus) bool {
	s.result.Acted = true
	if err := s.m.removeRecord(ctx, s.pod.UID, record.Name, record.ID); err != nil {
		s.fail(stepRemoveContainer, record.Name, reasonRemoveContainerError, err)
		return false
	}
	s.done(stepRemoveContainer, record.Name, "", "")
	return true
}

// reset removes the records of all init and app containers; the next sync starts
// the pod from its first init container (spec/runtime.md 6.9).
func (s *podSync) reset(ctx context.Context) {
	defer s.keepFresh(ctx)() // what is stopped last still runs
	s.result.Again = true
	for _, r := range s.plan.Reset {
		if r.Source && r.Newest {
			s.m.holdAfter(s.pod, r.Spec, r.Record)
		}
		if r.Record.State == runtime.Running || r.Record.State == runtime.Unknown {
			c, _ := memberNamed(s.pod, r.Spec.Name)
			t := newTarget(s.pod, c, r.Record.ID.ID, r.Record.State)
			t.message = fmt.Sprintf("Stopping container %s, all containers of the pod restart", r.Record.Name)
			s.result.Acted = true
			if err := s.m.stop(ctx, t, nil); err != nil {
				s.fail(stepKillContainer, r.Record.Name, reasonKillContainerError, err)
				return
			}
			s.done(stepKillContainer, r.Record.Name, string(v1.ContainerRestartRuleActionRestartAllContainers), "")
		}
		if !s.remove(ctx, r.Record) {
			return
		}
	}
}
