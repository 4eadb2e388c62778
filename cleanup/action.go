package cleanup

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/rule"
)

// Step orders the actions of a plan. Values up to 17 are the step numbers of
// spec/cleanup.md 3.
type Step int

// Steps.
const (
	// StepUserRanges gives user ID ranges back (step 8).
	StepUserRanges Step = 8
	// StepDirectories removes folders of pods (step 9, section 4).
	StepDirectories Step = 9
	// StepMirrors deletes mirror pods without a static pod (step 10).
	StepMirrors Step = 10
	// StepRestart starts desired pods that the workers do not know (step 12).
	StepRestart Step = 12
	// StepFinish finishes deleted pods that never ran (step 13).
	StepFinish Step = 13
	// StepKillOrphan kills running pods that are not known (step 14).
	StepKillOrphan Step = 14
	// StepCgroups removes cgroups of gone pods (step 16).
	StepCgroups Step = 16
	// StepContent removes containers and sandboxes of gone pods (CG4 a, SB2).
	StepContent Step = 20
	// StepLogs removes log folders of gone pods (LG1).
	StepLogs Step = 21
	// StepContainers and StepSandboxes remove dead ones according to policy (sections 6, 7).
	StepContainers Step = 22
	StepSandboxes  Step = 23
	// StepImages removes unused images (section 8.2).
	StepImages Step = 24
)

// String says what the step does.
func (s Step) String() string {
	switch s {
	case StepUserRanges:
		return "release user IDs"
	case StepDirectories:
		return "remove pod folder"
	case StepMirrors:
		return "delete mirror pod"
	case StepRestart:
		return "restart"
	case StepFinish:
		return "finish"
	case StepKillOrphan:
		return "kill orphan"
	case StepCgroups:
		return "remove cgroup"
	case StepContent:
		return "remove content"
	case StepLogs:
		return "remove logs"
	case StepContainers:
		return "remove container"
	case StepSandboxes:
		return "remove sandbox"
	case StepImages:
		return "remove image"
	default:
		return "unknown"
	}
}

// MarshalText returns String, so that a plan in JSON reads like its table (DR4).
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// kind returns the kind of object that a step acts on.
func (s Step) kind() string {
	switch s {
	case StepUserRanges:
		return "user IDs"
	case StepDirectories:
		return "pod folder"
	case StepMirrors:
		return "mirror pod"
	case StepCgroups:
		return "cgroup"
	case StepLogs:
		return "log folder"
	case StepContainers:
		return "container"
	case StepSandboxes:
		return "sandbox"
	case StepImages:
		return "image"
	default:
		return "pod"
	}
}

// Action is one thing that a pass would do, or that a rule forbids (DR1, DR3).
type Action struct {
	Step Step `json:"step"`
	// Kind is what the object is: pod, pod folder, log folder, container, sandbox,
	// image, cgroup, user IDs or mirror pod. A plan fills it in.
	Kind string `json:"kind"`
	// PodUID is the pod concerned; empty for images and mirror pods.
	PodUID types.UID `json:"podUID,omitempty"`
	// Object is what is acted on.
	Object Object `json:"object"`
	// Reason says why the object is a candidate.
	Reason string `json:"reason"`
	// Age of the object, and its Size in bytes; 0 if not known.
	Age  metav1.Duration `json:"age,omitzero"`
	Size int64           `json:"size,omitempty"`
	// Forbidden is the rule that forbids the action; zero if it is allowed.
	Forbidden Denial `json:"forbidden,omitzero"`
}

// Allowed reports whether no rule forbids the action.
func (a Action) Allowed() bool { return a.Forbidden.IsZero() }

// Rule is the name of a rule of docs/spec, such as "ND2".
type Rule = rule.Rule

// Denial says which rule forbids something, and why. The zero value denies nothing. Its fields:
//
//	Rule Rule   // such as "ND2"
//	Why  string // explanation
type Denial = rule.Denial

// Object identifies what an action is about. It prints as namespace/name/container and ID, as far
// as these are known.
type Object struct {
	// Namespace and Name are those of the pod or mirror pod.
	Namespace, Name string
	// Container is a container's name.
	Container string
	// ID is the runtime's ID of a container or sandbox, an image, or the UID of a pod whose name is
	// not known.
	ID string
}

// String returns the object as text for display.
func (o Object) String() string {
	if o.Name == "" {
		return o.ID
	}
	text := o.Namespace + "/" + o.Name
	if o.Container != "" {
		text += "/" + o.Container
	}
	if o.ID != "" {
		text += " " + o.ID
	}
	return text
}

// MarshalText returns String.
func (o Object) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

func (o Object) compare(other Object) int {
	return cmp.Or(cmp.Compare(o.Namespace, other.Namespace), cmp.Compare(o.Name, other.Name),
		cmp.Compare(o.Container, other.Container), cmp.Compare(o.ID, other.ID))
}

// sort orders actions by step, UID and object (ID3).
func (p *Plan) sort() {
	slices.SortStableFunc(p.Actions, func(a, b Action) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.PodUID, b.PodUID), a.Object.compare(b.Object))
	})
}

// Add puts actions that were decided elsewhere into the plan.
func (p *Plan) Add(actions ...Action) {
	for _, a := range actions {
		a.Kind = a.Step.kind()
		p.Actions = append(p.Actions, a)
	}
	p.sort()
}

// result says what became of an allowed action.
type result string

// Results.
const (
	// Done: it was done, or there was nothing left to do (ID1).
	done result = "done"
	// Skipped: a guard that was asked again just before the action, a veto or a rate limit held it
	// back; a later pass decides again.
	skipped result = "skipped"
	// Failed: it did not work, and will be retried.
	failed result = "failed"
)

// outcome is an action and its result (DR1).
type outcome struct {
	Action
	Result result
	// Why it was skipped, or how it failed (in that case without a rule).
	Why Denial
}
