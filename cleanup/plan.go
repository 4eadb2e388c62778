package cleanup

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Step orders the actions of a plan. Values up to 17 are the step numbers of
// spec/cleanup.md 3.
type Step int

// Steps.
const (
	// StepDirectories removes folders of pods (step 9, section 4).
	StepDirectories Step = 9
	// StepRestart starts desired pods the workers do not know (step 12).
	StepRestart Step = 12
	// StepFinish finishes deleted pods that never ran (step 13).
	StepFinish Step = 13
	// StepKillOrphan kills what runs and nobody knows (step 14).
	StepKillOrphan Step = 14
	// StepContent removes containers and sandboxes of gone pods (CG4 a, SB2).
	StepContent Step = 20
	// StepLogs removes log folders of gone pods (LG1).
	StepLogs Step = 21
)

// String says what the step does.
func (s Step) String() string {
	switch s {
	case StepDirectories:
		return "remove pod folder"
	case StepRestart:
		return "restart"
	case StepFinish:
		return "finish"
	case StepKillOrphan:
		return "kill orphan"
	case StepContent:
		return "remove content"
	case StepLogs:
		return "remove logs"
	default:
		return "unknown"
	}
}

// MarshalText returns String, so that a plan in JSON reads like its table (DR4).
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Action is one thing a pass would do, or is kept from doing (DR1, DR3).
type Action struct {
	Step Step `json:"step"`
	// PodUID is the pod concerned.
	PodUID types.UID `json:"podUID"`
	// Object names what is acted on: namespace/name if known, else the UID.
	Object string `json:"object"`
	// Reason says why the object is a candidate.
	Reason string `json:"reason"`
	// Forbidden names the rule that forbids the action, and why; empty if it is
	// allowed.
	Forbidden string `json:"forbidden,omitempty"`
}

// Allowed reports whether no rule forbids the action.
func (a Action) Allowed() bool { return a.Forbidden == "" }

// Input is everything a plan is made from, read at one moment (HK3).
type Input struct {
	// SourcesReady is the guard of SG1.
	SourcesReady bool
	// SetupHeld, if not nil, is why no pod may be set up now.
	SetupHeld error
	// Desired are the pods the sources want, mirror pods excluded.
	Desired []*v1.Pod
	// Workers are the pods the workers know after SyncKnownPods; Forgotten are
	// desired pods they forgot in it, to begin a new life, so that their phase in
	// Phases is of the old one.
	Workers   map[types.UID]Worker
	Forgotten map[types.UID]bool
	// Phases are the locally known phases of desired pods.
	Phases map[types.UID]v1.PodPhase
	// Running is a fresh list of the pods that run; RunningErr says why there is
	// none (step 5).
	Running    []*runtime.Pod
	RunningErr error
	// ContentGoes are the pods of which the workers say that their content should
	// be removed.
	ContentGoes map[types.UID]bool
	// Content are pods that may have left content in the runtime; LogDirs and
	// PodDirs are those that have folders.
	Content, LogDirs, PodDirs []types.UID
	// Undecided, if not nil, is why the sources may want pods they have not named;
	// Met are the pods this process has known, which are not among those.
	Undecided error
	Met       map[types.UID]bool
	// Waiting are candidates whose last removal failed, and why; they are left
	// alone until their back-off is over (OD10).
	Waiting map[Candidate]string
}

// Candidate is what may be removed in one step.
type Candidate struct {
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

// MakePlan decides. It touches nothing and keeps nothing of the input.
func MakePlan(in Input) Plan {
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
	p.restarts() // before the orphans, so that none is killed as one (HI4)
	p.finishes()
	p.orphans()
	p.removals(StepContent, in.Content, "its life is over")
	p.removals(StepLogs, in.LogDirs, "no pod needs these logs")
	p.removals(StepDirectories, in.PodDirs, "no pod has this folder")
	slices.SortFunc(p.plan.Actions, func(a, b Action) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.PodUID, b.PodUID))
	})
	return p.plan
}

// planner is the state of one MakePlan.
type planner struct {
	in      Input
	desired map[types.UID]*v1.Pod
	running map[types.UID]*runtime.Pod
	// known are the pods with a worker, those the plan gives one included.
	known map[types.UID]bool
	plan  Plan
}

// add plans an action, or notes the first rule that forbids it.
func (p *planner) add(step Step, uid types.UID, object, reason string, rules ...string) {
	a := Action{Step: step, PodUID: uid, Object: object, Reason: reason}
	if !p.in.SourcesReady {
		a.Forbidden = "SG1: not all sources have been seen"
	}
	for _, rule := range rules {
		if a.Forbidden == "" {
			a.Forbidden = rule
		}
	}
	p.plan.Actions = append(p.plan.Actions, a)
}

// needsList forbids what is judged by the runtime list while there is none.
func (p *planner) needsList() string {
	if p.in.RunningErr == nil {
		return ""
	}
	return "ND11: the list of running pods failed: " + p.in.RunningErr.Error()
}

func terminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// active works out which desired pods are active (syncloop.md AD4). The local
// phase of a pod that was forgotten to begin anew belongs to its old life.
func (p *planner) active() {
	for uid, pod := range p.desired {
		worker, known := p.in.Workers[uid]
		ended := terminal(pod.Status.Phase) || terminal(p.in.Phases[uid]) && !p.in.Forgotten[uid]
		switch {
		case known && worker.State == WorkerTerminated:
		case ended && !(known && worker.State == WorkerTerminating):
		default:
			p.plan.Active[uid] = true
		}
	}
}

// restarts is step 12.
func (p *planner) restarts() {
	for uid := range p.plan.Active {
		if p.known[uid] {
			continue
		}
		held := ""
		if p.in.SetupHeld != nil {
			held = "B2: setup is held back: " + p.in.SetupHeld.Error()
		}
		p.add(StepRestart, uid, nameOf(p.desired[uid]), "desired, but without a worker", p.needsList(), held)
		// Known from here on even if it has to wait: what runs of it is not an
		// orphan but the pod itself.
		p.known[uid] = true
	}
}

// finishes is step 13. A pending pod is left out: it may be about to start.
func (p *planner) finishes() {
	for uid, pod := range p.desired {
		if pod.DeletionTimestamp == nil || p.known[uid] || p.running[uid] != nil ||
			!terminal(pod.Status.Phase) && !terminal(p.in.Phases[uid]) {
			continue
		}
		p.add(StepFinish, uid, nameOf(pod), "deleted and ended, but without a worker", p.needsList())
	}
}

// orphans is step 14.
func (p *planner) orphans() {
	for uid, pod := range p.running {
		if !p.known[uid] {
			p.add(StepKillOrphan, uid, pod.Namespace+"/"+pod.Name, "runs, but nobody knows it", p.stranger(uid))
		}
	}
}

// removals plans the removal of something pods leave behind.
func (p *planner) removals(step Step, candidates []types.UID, reason string) {
	candidates = slices.Clone(candidates)
	slices.Sort(candidates)
	for _, uid := range slices.Compact(candidates) {
		p.add(step, uid, string(uid), reason, p.needsList(), p.keeps(step, uid), p.stranger(uid), p.in.Waiting[Candidate{step, uid}])
	}
}

// keeps returns the rule that protects what a pod left behind (ND2). A pod the
// workers know keeps everything, also after it has ended: its last status is still
// read from what is left.
func (p *planner) keeps(step Step, uid types.UID) string {
	switch {
	case p.running[uid] != nil:
		return "ND2: the pod runs"
	case p.desired[uid] != nil:
		return "ND2: the pod is desired"
	case p.known[uid]:
		return "ND2: the pod's worker has not finished"
	case step != StepDirectories && !p.in.ContentGoes[uid]:
		return "ND2: the workers have not released what is left of the pod"
	}
	return ""
}

// stranger protects a pod this process has never known while a source cannot tell
// whether it wants it (ND2).
func (p *planner) stranger(uid types.UID) string {
	if p.in.Undecided == nil || p.in.Met[uid] {
		return ""
	}
	return ruleUndecided + p.in.Undecided.Error()
}

// ruleUndecided begins the rule of stranger.
const ruleUndecided = "ND2: the pod may be wanted by a source that cannot name it yet: "

func nameOf(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
