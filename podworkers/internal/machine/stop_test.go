package machine

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// L1: a stop goes through the pods in order of UID, whatever order the records have.
func TestUnitStopGoesInOrderOfUID(t *testing.T) {
	m := New(defaultConfig())
	random := func() float64 { return 0 }
	m.Apply(&Event{Kind: EventRun}, 0, random, nil)
	for i := range 30 {
		uid := types.UID(fmt.Sprintf("%02d", (i*7)%30))
		fx := m.Apply(&Event{Kind: EventUpdate, Update: Update{Type: TypeCreate, Pod: makePod(uid, nil)}}, 0, random, nil)
		m.Apply(&Event{Kind: EventDispatch}, 0, random, fx)
	}
	var cancelled []types.UID
	for _, e := range m.Apply(&Event{Kind: EventStop, Stop: Stop{Mode: StopNow}}, 0, random, nil) {
		if e.Kind == EffectCancelCall {
			cancelled = append(cancelled, e.UID)
		}
	}
	if len(cancelled) != 30 || !slices.IsSorted(cancelled) {
		t.Errorf("cancelled %v", cancelled)
	}
}
