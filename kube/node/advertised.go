package node

import (
	"maps"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// advertised are the extended resources that a Node has because somebody said so in its capacity (KN12), as
// administrators do for devices that the machine does not show. Options that say what the node has say it all.
func (r *Registrar) advertised(s *v1.NodeStatus) v1.ResourceList {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.options.Capacity != nil || r.options.Allocatable != nil || r.former {
		return nil
	}
	return extended(s.Capacity)
}

// keep leaves in a status that is about to be written what is advertised in the one before.
func (r *Registrar) keep(had, want *v1.NodeStatus) {
	kept := r.advertised(had)
	if len(kept) == 0 {
		return
	}
	want.Capacity, want.Allocatable = maps.Clone(want.Capacity), maps.Clone(want.Allocatable) // they are those of the facts
	maps.Copy(want.Capacity, kept)
	maps.Copy(want.Allocatable, kept)
}

// unusable reports whether pods may not use what a Node advertises yet, or may use what it does not any more.
func (r *Registrar) unusable(s *v1.NodeStatus) bool {
	return r.options.Capacity == nil && r.options.Allocatable == nil && !equality.Semantic.DeepEqual(extended(s.Capacity), extended(s.Allocatable))
}

// extended returns the extended resources of a list, never nil.
func extended(list v1.ResourceList) v1.ResourceList {
	found := v1.ResourceList{}
	maps.Copy(found, list)
	maps.DeleteFunc(found, func(name v1.ResourceName, _ resource.Quantity) bool {
		return !strings.Contains(string(name), "/") || strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
	})
	return found
}

// otherAgent reports whether a Node was an agent's of another kind, whose devices this one does not have: a kubelet's, say.
// The word after the plus sign of a version names the kind; what follows the word is one build of it.
func otherAgent(theirs, ours string) bool {
	return theirs != "" && kindOf(theirs) != kindOf(ours)
}

func kindOf(version string) string {
	_, suffix, _ := strings.Cut(version, "+")
	if n := strings.IndexFunc(suffix, func(r rune) bool { return !unicode.IsLetter(r) }); n >= 0 {
		suffix = suffix[:n]
	}
	return suffix
}
