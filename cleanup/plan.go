package cleanup

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/runtime"
)

// input is everything that a plan is made from, read at one moment (HK3).
type input struct {
	// SourcesReady is the guard of SG1.
	SourcesReady bool
	// SetupHeld, if not nil, is why no pod may be set up now.
	SetupHeld error
	// Withheld are desired pods without a worker, because they have not been handed to one yet.
	Withheld map[types.UID]bool
	// Desired are the pods the sources want, mirror pods excluded.
	Desired []*v1.Pod
	// Workers are the pods that the workers know after SyncKnownPods. For a pod that is to live
	// again, Phases has the phase of its old life.
	Workers map[types.UID]Worker
	// Phases are the locally known phases of desired pods.
	Phases map[types.UID]v1.PodPhase
	// Running is a fresh list of the running pods; RunningErr says why there is none (step 5).
	Running    []*runtime.Pod
	RunningErr error
	// ContentGoes are the pods whose content should be removed, according to the workers.
	ContentGoes map[types.UID]bool
	// Content are the pods that may have left content in the runtime; LogDirs and PodDirs are those
	// that have folders.
	Content, LogDirs, PodDirs []types.UID
	// Undecided, if not nil, is why the sources may want pods that they have not named; Seen are
	// the pods that this process has known, which are not among those.
	Undecided error
	Seen      map[types.UID]bool
	// Cgroups are the pods that have a cgroup, listed before Desired was read; Volumes says why an
	// unused cgroup has to stay nevertheless (ND6).
	Cgroups []types.UID
	Volumes map[types.UID]string
	// UserRanges are the pods that have a range of user IDs.
	UserRanges []types.UID
	// Mirrors are the mirror pods without a desired static pod; those in
	// Terminating have one that is being terminated.
	Mirrors     []types.NamespacedName
	Terminating map[types.NamespacedName]bool
	// Waiting holds the candidates whose last removal failed, with the reason; they are left alone
	// until their back-off is over (OD10).
	Waiting map[candidate]Denial
	// Explain also lists what stays because a living pod has it. Otherwise these are not candidates
	// (OD1), and the plan of a converged node is empty.
	Explain bool
}

// candidate is something that may be removed in one step.
type candidate struct {
	Step   Step
	PodUID types.UID
}

// Plan is what a pass would do. Two plans from the same input are equal (ID3).
type Plan struct {
	// Actions, the forbidden ones included, by step, then UID.
	Actions []Action `json:"actions"`
	// Active are the desired pods that are active (syncloop.md AD4).
	Active map[types.UID]bool `json:"-"`
}

// makePlan makes the plan. It changes nothing and keeps nothing of the input.
func makePlan(in input) Plan {
	p := planner{
		in:      in,
		desired: make(map[types.UID]*v1.Pod, len(in.Desired)),
		running: make(map[types.UID]*runtime.Pod, len(in.Running)),
		known:   make(map[types.UID]bool, len(in.Workers)),
		plan:    Plan{Active: make(map[types.UID]bool, len(in.Desired))},
	}
	for _, pod := range in.Desired {
		p.desired[pod.UID] = pod
	}
	if in.RunningErr == nil {
		for _, pod := range in.Running {
			p.running[pod.UID] = pod
		}
	}
	for uid := range in.Workers {
		p.known[uid] = true
	}
	p.active()
	p.restarts() // before the orphans, so that no restarted pod is killed as one (HI4)
	p.finishes()
	p.orphans()
	p.removals(StepContent, in.Content, "its life is over")
	p.removals(StepLogs, in.LogDirs, "no pod needs these logs")
	p.removals(StepDirectories, in.PodDirs, "no pod has this folder")
	p.removals(StepUserRanges, in.UserRanges, "no pod uses these user IDs")
	p.removals(StepCgroups, in.Cgroups, "no pod uses this cgroup")
	p.mirrors()
	p.plan.sort()
	return p.plan
}

// planner is the state of one makePlan.
type planner struct {
	in      input
	desired map[types.UID]*v1.Pod
	running map[types.UID]*runtime.Pod
	// known are the pods with a worker, including those that the plan gives one.
	known map[types.UID]bool
	plan  Plan
}

// add plans an action, or records the first rule that forbids it.
func (p *planner) add(step Step, uid types.UID, object Object, reason string, rules ...Denial) {
	p.append(Action{Step: step, PodUID: uid, Object: object, Reason: reason}, rules...)
}

func (p *planner) append(a Action, rules ...Denial) {
	a.Kind = a.Step.kind()
	if !p.in.SourcesReady {
		a.Forbidden = sourcesUnseen()
	}
	for _, rule := range rules {
		if a.Forbidden.IsZero() {
			a.Forbidden = rule
		}
	}
	p.plan.Actions = append(p.plan.Actions, a)
}

// needsList forbids actions that depend on the runtime list while there is none.
func (p *planner) needsList() Denial {
	if p.in.RunningErr == nil {
		return Denial{}
	}
	return rule.ListFailed.Because("the list of running pods failed: " + p.in.RunningErr.Error())
}

// active determines which desired pods are active (syncloop.md AD4). The local phase of a pod that
// is to live again belongs to its old life.
func (p *planner) active() {
	for uid, pod := range p.desired {
		worker, known := p.in.Workers[uid]
		ended := podinfo.Terminal(pod.Status.Phase) || podinfo.Terminal(p.in.Phases[uid]) && !worker.Restart
		switch {
		case known && worker.State == WorkerTerminated && !worker.Restart:
		case ended && !(known && worker.State == WorkerTerminating):
		default:
			p.plan.Active[uid] = true
		}
	}
}

// restarts is step 12.
func (p *planner) restarts() {
	for uid := range p.plan.Active {
		if p.known[uid] && !p.in.Workers[uid].Restart {
			continue
		}
		why := "desired, but without a worker"
		if p.known[uid] {
			why = "its life is over, and it is wanted again"
		}
		var held Denial
		switch {
		case p.in.SetupHeld != nil:
			held = setupHeld(p.in.SetupHeld)
		case p.in.Withheld[uid]:
			held = withheld()
		}
		p.add(StepRestart, uid, objectOf(p.desired[uid]), why, p.needsList(), held)
		// Known from here on even if it has to wait: what is running of it is not an orphan but the
		// pod itself.
		p.known[uid] = true
	}
}

// finishes is step 13. A pending pod is left out: it may be about to start.
func (p *planner) finishes() {
	for uid, pod := range p.desired {
		if pod.DeletionTimestamp == nil || p.known[uid] || p.running[uid] != nil ||
			!podinfo.Terminal(pod.Status.Phase) && !podinfo.Terminal(p.in.Phases[uid]) {
			continue
		}
		p.add(StepFinish, uid, objectOf(pod), "deleted and ended, but without a worker", p.needsList())
	}
}

// orphans is step 14.
func (p *planner) orphans() {
	for uid, pod := range p.running {
		if !p.known[uid] {
			p.add(StepKillOrphan, uid, Object{Namespace: pod.Namespace, Name: pod.Name}, "is running but not known", p.maybeWanted(uid))
		}
	}
}

// removals plans the removal of what pods leave behind, in one step.
func (p *planner) removals(step Step, candidates []types.UID, reason string) {
	if !slices.IsSorted(candidates) {
		candidates = slices.Sorted(slices.Values(candidates))
	}
	for i, uid := range candidates {
		if i > 0 && candidates[i-1] == uid {
			continue
		}
		keeps := p.keeps(step, uid)
		if !keeps.IsZero() && !p.in.Explain && p.desired[uid] != nil {
			continue // no candidate (OD1)
		}
		volumes := p.in.Volumes[uid]
		last := p.in.Waiting[candidate{step, uid}]
		if step == StepCgroups && volumes != "" {
			last = rule.VolumesLeft.Because(volumes)
		}
		p.add(step, uid, Object{ID: string(uid)}, reason, p.needsList(), keeps, p.maybeWanted(uid), last)
	}
}

// keeps returns the rule that protects what a pod left behind (ND2). A pod that the workers know
// keeps everything, even after it has ended: its last status is still read from what is left.
func (p *planner) keeps(step Step, uid types.UID) Denial {
	switch {
	case p.running[uid] != nil:
		return rule.InUse.Because("the pod runs")
	case p.desired[uid] != nil:
		return podDesired()
	case p.known[uid]:
		return rule.InUse.Because("the pod's worker has not finished")
	case (step == StepContent || step == StepLogs) && !p.in.ContentGoes[uid]:
		return rule.InUse.Because("the workers have not released what is left of the pod")
	}
	return Denial{}
}

// mirrors is step 10. It needs no list (HK4).
func (p *planner) mirrors() {
	for _, name := range p.in.Mirrors {
		a := Action{Step: StepMirrors, Object: Object{Namespace: name.Namespace, Name: name.Name}, Reason: "no static pod has this name"}
		if p.in.Terminating[name] {
			p.append(a, staticTerminating())
			continue
		}
		p.append(a)
	}
}

// maybeWanted protects a pod that this process has never known, while a source cannot tell whether
// it wants the pod (ND2).
func (p *planner) maybeWanted(uid types.UID) Denial {
	if p.in.Undecided == nil || p.in.Seen[uid] {
		return Denial{}
	}
	return maybeWanted(p.in.Undecided)
}

func objectOf(pod *v1.Pod) Object { return Object{Namespace: pod.Namespace, Name: pod.Name} }
