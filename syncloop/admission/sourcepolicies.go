package admission

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// SourcePolicies holds the policy of each source; see [BySource]. It is a [Reviewer].
// Its methods may be called from any goroutine.
type SourcePolicies struct {
	policies *policyTable
	// departing is the argument of Counting, or nil.
	departing func() []*v1.Pod
	// ahead is the argument of InOrder, or nil.
	ahead func(pod types.UID) iter.Seq2[*v1.Pod, error]
}

var _ Asker = (*SourcePolicies)(nil)

// policyTable holds the policies by source.
type policyTable struct {
	mu       sync.RWMutex
	bySource map[string]policy
}

// policy is a policy with the reviewer of its level.
type policy struct {
	SourcePolicy
	security Reviewer
}

// of returns the policy of a source, or the one for all other sources.
func (t *policyTable) of(source string) (p policy, found bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if p, found = t.bySource[source]; !found {
		p, found = t.bySource[""]
	}
	return p, found
}

// BySource refuses a pod that its source may not run (PS4). The keys of policies are names of
// sources; the empty name is for all sources without a policy of their own. An error lists
// everything that is wrong with the policies.
func BySource(policies map[string]SourcePolicy) (*SourcePolicies, error) {
	h := &SourcePolicies{policies: &policyTable{bySource: map[string]policy{}}}
	var problems []error
	for _, source := range slices.Sorted(maps.Keys(policies)) {
		p := policies[source]
		problems = append(problems, h.Set(source, &p))
	}
	return h, errors.Join(problems...)
}

// Set gives a source its own policy or replaces it; nil removes it. The policy applies to pods that
// come from now on. An error lists everything that is wrong with the policy, and nothing changes
// then.
func (h *SourcePolicies) Set(source string, p *SourcePolicy) error {
	h.policies.mu.Lock()
	defer h.policies.mu.Unlock()
	if p == nil {
		delete(h.policies.bySource, source)
		return nil
	}
	security, err := PodSecurity(cmp.Or(p.Security, SecurityPrivileged), p.Exemptions)
	var problems []error
	if err != nil {
		problems = append(problems, fmt.Errorf("policy of source %q: %w", source, err))
	}
	if p.OwnUIDs && source == podinfo.SourceAPI {
		problems = append(problems, fmt.Errorf("policy of source %q: OwnUIDs: its pods are known to the API by their UIDs", source))
	}
	for _, r := range slices.Sorted(maps.Keys(p.Requests)) {
		if q := p.Requests[r]; q.Sign() < 0 {
			problems = append(problems, fmt.Errorf("policy of source %q: requests of %s %s: must not be negative", source, q.String(), r))
		}
	}
	if len(problems) == 0 {
		h.policies.bySource[source] = policy{*p, security}
	}
	return errors.Join(problems...)
}

func (*SourcePolicies) ofThisPackage() {}

// policyOf returns a pod's policy, and false if there is none.
func (h *SourcePolicies) policyOf(pod *v1.Pod) (p policy, found bool) {
	return h.policies.of(pod.Annotations[podinfo.AnnotationSource])
}

// OwnUIDs reports whether the pods of a source get UIDs that the node makes.
func (h *SourcePolicies) OwnUIDs(source string) bool {
	p, _ := h.policies.of(source)
	return p.OwnUIDs && source != podinfo.SourceAPI
}

// Counting returns the same policies, but these also count the pods that departing returns, each for
// its source: pods of any source that still hold their resources, although no source wants them or
// they are being stopped. A pod that has room only without them waits until they are gone; see
// [SourcePolicies.Ask]. Each count of a source's pods calls departing, which must not block.
func (h *SourcePolicies) Counting(departing func() []*v1.Pod) *SourcePolicies {
	counting := *h
	counting.departing = departing
	return &counting
}

// InOrder returns the same policies, but with these a pod also waits if it has room, but leaves none to an earlier pod
// of its source that waits. ahead yields the pods that came before one and have no verdict yet, each with its error of
// [SourcePolicies.Ask], which may be wrapped; others are ignored. It must not block.
func (h *SourcePolicies) InOrder(ahead func(pod types.UID) iter.Seq2[*v1.Pod, error]) *SourcePolicies {
	ordered := *h
	ordered.ahead = ahead
	return &ordered
}
