package node

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/syncloop"
)

// Namesakes decides about running pods under whose names others wait.
type Namesakes struct {
	// Owner returns the source that a running pod had, according to its record.
	Owner func(uid types.UID) (pod *v1.Pod, source string)
	// MaybeWanted returns the rule that protects a pod that an undecided source may want.
	MaybeWanted func(uid types.UID) cleanup.Denial
	// Sources returns the state of all sources.
	Sources func() []syncloop.SourceStatus
}

// Spared reports whether a running pod keeps its name from a waiting one, because a source that cannot
// name all its pods may want it (spec/cleanup.md ND2). That is not the waiting pod's own source, whose
// new pod replaces the running one.
func (n Namesakes) Spared(running types.UID, waiting *v1.Pod) bool {
	own := waiting.Annotations[podinfo.AnnotationSource]
	if _, source := n.Owner(running); source == own || n.MaybeWanted(running).IsZero() {
		return false
	}
	return slices.ContainsFunc(n.Sources(), func(s syncloop.SourceStatus) bool { return s.Undecided != nil && s.Name != own })
}
