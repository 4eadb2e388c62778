package cleanup

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Step orders the actions of a pass. Values up to 17 are the step numbers of
// spec/cleanup.md 3.
type Step int

// Steps.
const (
	StepRestart     Step = 12
	StepFinish      Step = 13
	StepKillOrphan  Step = 14
	StepContent     Step = 20
	StepLogs        Step = 21
	StepDirectories Step = 22
)

// Action is one thing a pass would do, or was kept from doing.
type Action struct {
	Step Step `json:"step"`
	// PodUID is the pod concerned.
	PodUID types.UID `json:"podUID"`
	// Object names what is acted on: namespace/name if known, else the UID.
	Object string `json:"object"`
	// Reason says why the object is a candidate.
	Reason string `json:"reason"`
	// Forbidden is the rule that forbids the action, with its reason; empty if
	// it is allowed.
	Forbidden string `json:"forbidden,omitempty"`
}

// Allowed reports whether no rule forbids the action.
func (a Action) Allowed() bool { return a.Forbidden == "" }

// Input is everything a plan is made from, read at one moment (HK3).
type Input struct {
	// SourcesReady is the guard of SG1.
	SourcesReady bool
	// SetupHeld, if not nil, is why no pod may be set up now (B2).
	SetupHeld error
	// Desired are the pods the sources want, mirror pods excluded.
	Desired []*v1.Pod
	// Workers are the pods the workers know after SyncKnownPods; Forgotten
	// those they forgot in it.
	Workers   map[types.UID]Worker
	Forgotten map[types.UID]bool
	// Phases are the locally known phases of desired pods.
	Phases map[types.UID]v1.PodPhase
	// Running is a fresh list of the pods that run. RunningErr says that there
	// is none; Running is then the last good list, for gauges only.
	Running    []*runtime.Pod
	RunningErr error
	// ContentGoes are the pods whose content the workers say should be removed.
	ContentGoes map[types.UID]bool
	// Content are pods that may have content left in the runtime; LogDirs and
	// PodDirs those that have folders.
	Content, LogDirs, PodDirs []types.UID
	// Waiting are pods whose last removal failed, and why; they are left alone
	// until their back-off is over (OD10).
	Waiting map[types.UID]string
}

// Plan is what a pass would do. Two plans from the same input are equal (ID3).
type Plan struct {
	// Actions, forbidden ones included, by step, then UID.
	Actions []Action
	// Active are the desired pods that are active (syncloop.md AD4).
	Active map[types.UID]bool
}

// MakePlan decides. It touches nothing and keeps nothing of the input.
func MakePlan(in Input) Plan { return Plan{} }
