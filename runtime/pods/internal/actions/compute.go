package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// Compute returns what the pod needs next (spec/runtime.md 6).
func Compute(in Input) Plan {
	p := compute(in)
	p.Own = ownRuns(in, &p)
	return p
}

// ownRuns returns the runs of app containers and sidecars that stop, or were stopped, in order to be
// started again, although an exit can end their containers for good, or restart the whole pod (6.12). A
// run that goes on, because there is no reason left to stop it, may end by itself, and one that now
// stops for good ends its container: neither is one of them any more.
func ownRuns(in Input, p *Plan) (runs []restarts.Run) {
	if in.Asked != nil {
		for _, r := range in.Asked.Own {
			if !dropped(in, p, r) {
				runs = append(runs, r)
			}
		}
	}
	for sidecars, list := range [...][]v1.Container{in.Pod.Spec.Containers, in.Pod.Spec.InitContainers} {
		for i := range list {
			c := &list[i]
			if sidecars == 1 && !restartpolicy.IsSidecar(c) || restartpolicy.Effective(in.Pod, c) == v1.RestartPolicyAlways && !restartpolicy.MayRestartAll(c) {
				continue
			}
			record := in.Status.Container(c.Name)
			if record != nil && record.State != runtime.Exited && !in.Asked.Has(record.ID) && p.replaces(in, c, record) {
				runs = append(runs, restarts.RunOf(record, in.Status))
			}
		}
	}
	return runs
}

// dropped reports whether a run may still run, and the plan leaves it alone or stops it for good.
func dropped(in Input, p *Plan, r restarts.Run) bool {
	record := in.Status.Container(r.Container)
	if record == nil || record.ID.String() != r.ID || record.State != runtime.Running && (record.State != runtime.Unknown || !p.KillPod) {
		return false
	}
	for _, list := range [...][]v1.Container{in.Pod.Spec.Containers, in.Pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == r.Container {
				return !p.replaces(in, &list[i], record)
			}
		}
	}
	return true
}

// replaces reports whether the plan stops a container's run in order to start another one.
func (p *Plan) replaces(in Input, c *v1.Container, record *runtime.ContainerStatus) bool {
	if p.CreateSandbox || in.Outside && !p.KillPod && in.Pod.DeletionTimestamp == nil {
		return record.State != runtime.Created && runsInNewSandbox(in, c)
	}
	return slices.ContainsFunc(p.Kill, func(k Kill) bool { return k.Record == record && k.Restart })
}

// compute is Compute without the runs to remember.
func compute(in Input) Plan {
	if in.Pod.DeletionTimestamp == nil {
		if reset := resets(in); reset != nil {
			return Plan{Reset: reset}
		}
	}
	s := NeedsSandbox(in.Pod, in.Status)
	if s.New {
		return replaceSandbox(in, s)
	}
	p := Plan{SandboxID: s.ID, Attempt: s.Attempt}
	if in.Pod.DeletionTimestamp != nil {
		// Nothing restarts (6.1). Without a running container there is nothing to
		// wait for.
		p.KillPod = !in.Status.ContainersRunning()
		return p
	}
	for i := range in.Pod.Spec.EphemeralContainers {
		record := in.Status.Container(in.Pod.Spec.EphemeralContainers[i].Name)
		if record == nil || record.State == runtime.Created {
			p.StartEphemeral = append(p.StartEphemeral, i)
		}
	}
	if done := initContainers(in, &p); !done || p.KillPod {
		if !done && appsOver(in) {
			p.dropAll() // a sidecar that is not ready must not hold what has ended (6.8)
		}
		return p
	}
	appContainers(in, &p)
	return p
}

// replaceSandbox plans for a pod whose sandbox is missing or unusable
// (spec/runtime.md 6.2).
func replaceSandbox(in Input, s Sandbox) Plan {
	p := Plan{KillPod: true, Attempt: s.Attempt, Replaced: s.Replaced}
	spec := &in.Pod.Spec
	if in.Pod.DeletionTimestamp != nil {
		return p
	}
	if spec.RestartPolicy == v1.RestartPolicyNever && s.Attempt != 0 && !anyReturns(in) {
		return p // 6.2a
	}
	var start []int
	for i := range spec.Containers {
		if runsInNewSandbox(in, &spec.Containers[i]) {
			start = append(start, i)
		}
	}
	if len(start) == 0 && len(spec.Containers) > 0 {
		return p // 6.2b
	}
	p.CreateSandbox = true
	if len(spec.InitContainers) > 0 {
		p.StartInit = []int{0} // 6.2c
		return p
	}
	p.StartApp = start // 6.2d
	return p
}

// anyReturns reports whether anything of a pod with policy Never runs in a new sandbox: an app
// container that has not run yet, or that its own policy or rules bring back, or that was stopped in
// order to be replaced (6.12). Otherwise a pod of which only an init container or a sidecar has run
// would wait indefinitely if its sandbox was lost. The first init container that was created and has
// not succeeded decides alone: nothing begins before it is done.
func anyReturns(in Input) bool {
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		record := in.Status.Container(c.Name)
		switch {
		case restartpolicy.IsSidecar(c), record == nil:
		case record.State != runtime.Exited:
			return runsInNewSandbox(in, c)
		case restartpolicy.InitFailed(record.ExitCode, record.Reason):
			return restartpolicy.OnInitExit(in.Pod, c, record.ExitCode, record.Reason) != restartpolicy.Stay
		}
	}
	for i := range in.Pod.Spec.Containers {
		if runsInNewSandbox(in, &in.Pod.Spec.Containers[i]) {
			return true
		}
	}
	return false
}

// hasRules reports whether a container's exit may bring it back although its policy is Never.
func hasRules(c *v1.Container) bool { return c.RestartPolicy != nil && len(c.RestartPolicyRules) > 0 }

// runsInNewSandbox reports whether a container is started in a fresh sandbox.
// Upstream leaves out only containers with policy OnFailure that succeeded; here
// every container that has ended for good stays ended, including one whose own
// policy is Never.
func runsInNewSandbox(in Input, c *v1.Container) bool {
	record := in.Status.Container(c.Name)
	if record == nil {
		return true
	}
	switch record.State {
	case runtime.Exited:
		return in.Asked.Has(record.ID) || restartpolicy.OnExit(in.Pod, c, record.ExitCode) != restartpolicy.Stay
	case runtime.Running, runtime.Unknown: // it may have run
		return restartpolicy.Effective(in.Pod, c) != v1.RestartPolicyNever
	}
	return true
}

// shouldRestart is the restart predicate for a container that does not run
// (spec/runtime.md 6.1, 6.11); the pod is not being deleted.
func shouldRestart(in Input, c *v1.Container, record *runtime.ContainerStatus) bool {
	if record == nil {
		return true
	}
	switch record.State {
	case runtime.Running:
		return false
	case runtime.Exited:
		return in.Asked.Has(record.ID) || restartpolicy.OnExit(in.Pod, c, record.ExitCode) != restartpolicy.Stay
	case runtime.Unknown:
		// What runsInNewSandbox left out of this sandbox stays out of it.
		left := record.SandboxID != in.Status.Sandboxes[0].ID && restartpolicy.Effective(in.Pod, c) == v1.RestartPolicyNever
		return !left || in.Asked.Has(record.ID)
	}
	return true
}

// appContainers plans for the app containers of a kept sandbox whose init is
// done (spec/runtime.md 6.7, 6.8).
func appContainers(in Input, p *Plan) {
	kept := 0
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		record := in.Status.Container(c.Name)
		if record == nil || record.State != runtime.Running {
			if !shouldRestart(in, c, record) {
				continue
			}
			if record != nil && record.State == runtime.Unknown {
				p.Kill = append(p.Kill, Kill{Record: record, Spec: c, Reason: StateUnknown, Restart: true})
			}
			p.StartApp = append(p.StartApp, i)
			continue
		}
		reason, restart := runningApp(in, c, record)
		if reason == "" {
			kept++
			if in.resize(record.ID) == ResizeInPlace {
				p.ResizeApp = append(p.ResizeApp, i)
			}
			continue
		}
		p.ResizePod = p.ResizePod || reason == Resized
		p.Kill = append(p.Kill, Kill{Record: record, Spec: c, Reason: reason, Restart: restart})
		switch {
		case restart:
			p.StartApp = append(p.StartApp, i)
		case hasRules(c):
			kept++ // its exit says what follows
		}
	}
	if kept == 0 && len(p.StartApp) == 0 {
		// Sidecars must not keep a pod running whose work is done (6.8).
		kills := p.Kill
		p.dropAll()
		// Why an app container must stop still says how.
		p.Kill = slices.DeleteFunc(kills, func(k Kill) bool { return k.Restart })
	}
}

// appsOver reports whether all app containers have ended for good in the current sandbox.
func appsOver(in Input) bool {
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		record := in.Status.Container(c.Name)
		if record == nil || record.State != runtime.Exited || record.SandboxID != in.Status.Sandboxes[0].ID || shouldRestart(in, c, record) {
			return false
		}
	}
	return len(in.Pod.Spec.Containers) > 0
}

// runningApp returns why a running app container must stop, "" if it may stay, and
// whether it is started again.
func runningApp(in Input, c *v1.Container, record *runtime.ContainerStatus) (reason KillReason, restart bool) {
	if meta.Changed(c, record) {
		return Changed, true
	}
	if in.Asked.Requested(record.ID) {
		return Requested, true
	}
	var results Probes
	if in.Probes != nil && (c.LivenessProbe != nil || c.StartupProbe != nil) {
		results = in.Probes[record.ID]
	}
	switch {
	case c.LivenessProbe != nil && results.Liveness == proberesult.Failure:
		reason = LivenessProbe
	case c.StartupProbe != nil && results.Startup == proberesult.Failure:
		reason = StartupProbe
	case in.resize(record.ID) == ResizeRestart:
		return Resized, true
	default:
		return "", false
	}
	return reason, restartpolicy.Effective(in.Pod, c) != v1.RestartPolicyNever
}
