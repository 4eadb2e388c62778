package node

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

var errShuttingDown = errors.New("the node is shutting down")

// State says how the node is, in the words of the API.
type State struct {
	Health *Health
	// ShuttingDown reports whether no new pod may come.
	ShuttingDown func() bool
	// Pressure returns the conditions for everything that the node may run out of.
	Pressure func() []v1.NodeCondition
	Clock    clock.PassiveClock
}

var _ NodeState = State{}

// Ready returns why the node is not ready for pods, nil if it is.
func (s State) Ready() error {
	err := errors.Join(s.Health.Runtime(), s.Health.Network())
	if s.ShuttingDown() {
		err = errors.Join(err, errShuttingDown)
	}
	return err
}

// Conditions returns the conditions of pressure and finally Ready, whose transition time continues
// from last.
func (s State) Conditions(last []v1.NodeCondition) []v1.NodeCondition {
	at := metav1.NewTime(s.Clock.Now())
	ready := v1.NodeCondition{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "the node is ready for pods",
		LastHeartbeatTime: at, LastTransitionTime: at,
	}
	if err := s.Ready(); err != nil {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, "KubeletNotReady", err.Error()
	}
	for _, l := range last {
		if l.Type == ready.Type && l.Status == ready.Status {
			ready.LastTransitionTime = l.LastTransitionTime
		}
	}
	return append(s.Pressure(), ready)
}
