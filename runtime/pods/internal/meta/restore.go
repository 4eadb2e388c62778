package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

// Restored is what a container's annotations say about a pod whose manifest is gone
// (spec/runtime.md 2.6).
type Restored struct {
	DeletionGrace    *int64
	TerminationGrace *int64
	PreStop          *v1.LifecycleHandler
	Ports            []v1.ContainerPort
	TerminationPath  string
	// Kind is [App] if unknown, Index -1.
	Kind  Kind
	Index int
}

// Restore reads annotations. Missing and malformed values read as zero; err names the
// malformed ones, and the rest is valid (spec/runtime.md 2.3).
func Restore(a map[string]string) (r Restored, err error) {
	var problems []error
	r = Restored{Kind: App, Index: -1, TerminationPath: a[AnnotationTerminationMessagePath]}
	number := func(key string) *int64 {
		s, ok := a[key]
		if !ok {
			return nil
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			problems = append(problems, fmt.Errorf("annotation %s: %w", key, err))
			return nil
		}
		return &n
	}
	r.DeletionGrace = number(AnnotationPodDeletionGrace)
	r.TerminationGrace = number(AnnotationPodTerminationGrace)
	if i := number(AnnotationIndex); i != nil {
		r.Index = int(*i)
	}
	switch k := Kind(a[AnnotationKind]); k {
	case App, Init, Sidecar, Ephemeral:
		r.Kind = k
	}
	if s, ok := a[AnnotationPreStopHandler]; ok {
		r.PreStop = &v1.LifecycleHandler{}
		if err := json.Unmarshal([]byte(s), r.PreStop); err != nil {
			problems = append(problems, fmt.Errorf("annotation %s: %w", AnnotationPreStopHandler, err))
			r.PreStop = nil
		}
	}
	if s, ok := a[AnnotationPorts]; ok {
		if err := json.Unmarshal([]byte(s), &r.Ports); err != nil {
			problems = append(problems, fmt.Errorf("annotation %s: %w", AnnotationPorts, err))
			r.Ports = nil
		}
	}
	return r, errors.Join(problems...)
}

// Changed reports whether a container's definition differs from the one the
// record was made from.
func Changed(c *v1.Container, record *runtime.ContainerStatus) bool {
	if v := record.Annotations[AnnotationHashVersion]; v != "" && v != HashVersion {
		return false
	}
	return record.Hash != Hash(c)
}
