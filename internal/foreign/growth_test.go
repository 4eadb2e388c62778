package foreign

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// TestPanicsOfPodsThatCameAndWentAreForgotten: IN6. A function that panics for every pod leaves nothing behind for good,
// also where its owner asks for no problems.
func TestPanicsOfPodsThatCameAndWentAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := New(clock.RealClock{})
		for n := range 10_000 {
			uid := types.UID(strconv.Itoa(n))
			if calls.Contain(Call{Name: "Store", UID: uid}, func() error { panic(n) }) == nil {
				t.Fatal("a panic is no error")
			}
			<-time.After(time.Second)
		}
		if n := len(calls.faults); n > 600 {
			t.Errorf("%d panics are remembered, of 10 min there are 600", n)
		}
	})
}
