package guide_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
)

// table is a sink that keeps one row for each pod, as a database would.
type table struct {
	mu   sync.Mutex
	rows map[types.UID]v1.PodStatus
}

func (t *table) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.Forgotten {
		delete(t.rows, u.UID) // no source wants the pod, and it has ended
		return status.Stored, nil
	}
	t.rows[u.UID] = *u.Status
	return status.Stored, nil
}

// A sink receives the statuses of each pod until the pod is forgotten.
func Example_ownSink() {
	t := &table{rows: map[types.UID]v1.PodStatus{}}
	web := status.PodRef{UID: "1", Namespace: "default", Name: "web"}
	ctx := context.Background()
	for version, u := range []status.Update{
		{Status: &v1.PodStatus{Phase: v1.PodRunning}},
		{Status: &v1.PodStatus{Phase: v1.PodSucceeded}, Finished: true},
		{Status: &v1.PodStatus{Phase: v1.PodSucceeded}, Finished: true, Forgotten: true},
	} {
		u.PodRef, u.Version = web, uint64(version+1)
		result, err := t.Store(ctx, u) // an engine calls it, see Config.Observe.Sinks
		fmt.Println(result, err, t.rows["1"].Phase, len(t.rows))
	}
	// Output:
	// stored <nil> Running 1
	// stored <nil> Succeeded 1
	// stored <nil>  0
}

func TestTable(t *testing.T) {
	statustest.Run(t, func(*testing.T) statustest.Subject {
		sink := &table{rows: map[types.UID]v1.PodStatus{}}
		return statustest.Subject{Sink: sink, Stored: func(uid types.UID) []v1.PodStatus {
			sink.mu.Lock()
			defer sink.mu.Unlock()
			if row, ok := sink.rows[uid]; ok {
				return []v1.PodStatus{row}
			}
			return nil
		}}
	})
}
