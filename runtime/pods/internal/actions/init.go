package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// initContainers walks the init list from its end and reports whether app
// containers may be considered (spec/runtime.md 6.4).
func initContainers(in Input, p *Plan) (done bool) {
	list := in.Pod.Spec.InitContainers
	if len(list) == 0 {
		return true
	}
	w := initWalk{in: in, p: p, prev: appBegan(in)}
	w.done = w.prev
	for i := len(list) - 1; i >= 0; i-- {
		c := &list[i]
		record := in.Status.Container(c.Name)
		sidecar := restartpolicy.IsSidecar(c)
		switch {
		case record == nil:
			if sidecar && w.prev {
				w.start(i)
			}
			continue
		case sidecar:
			w.sidecar(i, c, record)
		case w.prev:
			// A later container has begun, so this one is over.
		case !w.regular(i, c, record):
			p.dropAll()
			return false
		}
		w.prev = true
	}
	if !w.prev {
		w.start(0)
	}
	slices.Reverse(p.StartInit)
	slices.Reverse(p.ResizeInit)
	return w.done
}

// initWalk is the state of one walk.
type initWalk struct {
	in Input
	p  *Plan
	// prev is true once something later in the list, or an app, has begun.
	prev bool
	done bool
}

// start plans the start of init container i. The walk runs backwards, so
// several indices come in descending order.
func (w *initWalk) start(i int) { w.p.StartInit = append(w.p.StartInit, i) }

// next continues after container i.
func (w *initWalk) next(i int) {
	switch {
	case i == len(w.in.Pod.Spec.InitContainers)-1:
		w.done = true
	case !w.prev:
		w.start(i + 1)
	}
}

// kill plans to stop and restart init container i.
func (w *initWalk) kill(i int, c *v1.Container, record *runtime.ContainerStatus, reason KillReason) {
	w.p.Kill = append(w.p.Kill, Kill{Record: record, Spec: c, Reason: reason, Restart: true})
	w.start(i)
}

// regular handles the run-to-completion init container that is current. False
// means that init has failed for good.
func (w *initWalk) regular(i int, c *v1.Container, record *runtime.ContainerStatus) bool {
	switch record.State {
	case runtime.Running:
		if w.in.resize(record.ID) == ResizeInPlace {
			w.p.ResizeInit = append(w.p.ResizeInit, i)
		}
		return true
	case runtime.Created:
		w.start(i)
		return true
	case runtime.Exited:
		if !restartpolicy.InitFailed(record.ExitCode, record.Reason) {
			w.next(i)
			return true
		}
		if restartpolicy.OnInitExit(w.in.Pod, c, record.ExitCode, record.Reason) == restartpolicy.Stay {
			return false
		}
		w.start(i)
		return true
	}
	if restartpolicy.Effective(w.in.Pod, c) == v1.RestartPolicyNever {
		return false
	}
	w.kill(i, c, record, StateUnknown)
	return true
}

// sidecar handles a restartable init container with a record (spec/runtime.md
// 6.4, 6.5).
func (w *initWalk) sidecar(i int, c *v1.Container, record *runtime.ContainerStatus) {
	switch record.State {
	case runtime.Created, runtime.Exited:
		w.start(i)
		return
	case runtime.Unknown:
		w.kill(i, c, record, StateUnknown)
		return
	}
	var results Probes
	probed, asked := w.in.Probes != nil, w.in.Asked.Requested(record.ID)
	if probed && (c.StartupProbe != nil || c.LivenessProbe != nil) {
		results = w.in.Probes[record.ID]
	}
	if probed && c.StartupProbe != nil {
		switch results.Startup {
		case proberesult.Unknown:
			if asked {
				w.kill(i, c, record, Requested)
			}
			return
		case proberesult.Failure:
			w.kill(i, c, record, StartupProbe)
			return
		}
	}
	w.next(i)
	switch {
	case meta.Changed(c, record):
		w.kill(i, c, record, Changed)
	case asked:
		w.kill(i, c, record, Requested)
	case probed && c.LivenessProbe != nil && results.Liveness == proberesult.Failure:
		w.kill(i, c, record, LivenessProbe)
	default:
		w.resize(i, c, record)
	}
}

// resize handles a sidecar that stays unless its resources change (spec/runtime.md
// 6.5 v).
func (w *initWalk) resize(i int, c *v1.Container, record *runtime.ContainerStatus) {
	switch w.in.resize(record.ID) {
	case ResizeInPlace:
		w.p.ResizeInit = append(w.p.ResizeInit, i)
	case ResizeRestart:
		w.p.ResizePod = true
		w.kill(i, c, record, Resized)
	}
}

// appBegan reports whether an app container is created or running. One that has exited, or was created
// in an older sandbox, does not count: init has not been done there. One that was stopped in this
// sandbox in order to be replaced counts: init does not run again for that.
func appBegan(in Input) bool {
	for i := range in.Pod.Spec.Containers {
		record := in.Status.Container(in.Pod.Spec.Containers[i].Name)
		switch {
		case record == nil:
		case record.State == runtime.Running,
			record.SandboxID == in.Status.Sandboxes[0].ID && (record.State == runtime.Created || in.Asked.Has(record.ID)):
			return true
		}
	}
	return false
}
