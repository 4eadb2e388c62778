package shutdown

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Report describes a shutdown of the node. It encodes as JSON.
type Report struct {
	Began time.Time `json:"began"`
	// Ended is zero while pods are being stopped, and if the shutdown was cancelled.
	Ended time.Time `json:"ended,omitzero"`
	// Pods in the order of their groups, then by namespace and name.
	Pods []PodReport `json:"pods,omitempty"`
}

// PodReport says how one pod ended.
type PodReport struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Group is the priority of its group, Grace the time it had in seconds.
	Group int32 `json:"group"`
	Grace int64 `json:"grace"`
	// Phase it ended in.
	Phase v1.PodPhase `json:"phase,omitempty"`
	// Stopped: no container of it runs. Released: no volume of it is mounted either.
	// Acknowledged: every sink has its final status.
	Stopped      bool `json:"stopped"`
	Released     bool `json:"released"`
	Acknowledged bool `json:"acknowledged"`
	// Problem says why one of those is missing; empty otherwise.
	Problem string `json:"problem,omitempty"`
}
