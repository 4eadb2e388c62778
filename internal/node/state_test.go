package node

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestReadyIsLastAndContinuesItsTransition: section 16, node status.
func TestReadyIsLastAndContinuesItsTransition(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	down := false
	health := NewHealth(HealthOptions{Clock: clocktesting.NewFakeClock(time.Unix(1000, 0))})
	health.lastGood, health.verdict = time.Unix(1000, 0), verdict{}
	s := State{
		Health: health, ShuttingDown: func() bool { return down }, Clock: c,
		Pressure: func() []v1.NodeCondition { return []v1.NodeCondition{{Type: v1.NodeMemoryPressure}} },
	}
	first := s.Conditions(nil)
	if len(first) != 2 || first[0].Type != v1.NodeMemoryPressure || first[1].Type != v1.NodeReady || first[1].Status != v1.ConditionTrue {
		t.Fatalf("conditions %+v", first)
	}
	c.SetTime(time.Unix(1010, 0))
	second := s.Conditions(first)
	if !second[1].LastTransitionTime.Equal(&first[1].LastTransitionTime) || second[1].LastHeartbeatTime.Equal(&first[1].LastHeartbeatTime) {
		t.Errorf("the same status: %+v after %+v", second[1], first[1])
	}
	if !sameConditions(first, second) {
		t.Error("a heartbeat counts as a change")
	}
	down = true
	third := s.Conditions(second)
	at := metav1.NewTime(time.Unix(1010, 0))
	if third[1].Status != v1.ConditionFalse || third[1].Message != "the node is shutting down" || !third[1].LastTransitionTime.Equal(&at) {
		t.Errorf("while the node shuts down: %+v", third[1])
	}
	if sameConditions(second, third) {
		t.Error("another status counts as the same")
	}
	if err := s.Ready(); !errors.Is(err, errShuttingDown) {
		t.Errorf("Ready: %v", err)
	}
}
