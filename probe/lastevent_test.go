package probe_test

import (
	"context"
	"testing"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright/probe"
)

// recorder takes its time with every event.
type recorder struct{ said chan struct{} }

func (r recorder) Eventf(apiruntime.Object, string, string, string, ...any) {
	<-time.After(time.Second)
	close(r.said)
}

// 9.8: Run does not return before the event of a failed probe has been sent.
func TestRunReturnsAfterTheLastEvent(t *testing.T) {
	bubble(t, "9.8", func(t *testing.T) {
		f, pods := newFleet(1, liveness(every(1)))
		events := recorder{make(chan struct{})}
		o := f.options()
		o.Events, o.Rand = events, func() float64 { return 0 }
		o.Handler = func(probe.Target) probe.Handler { return failing{} }
		m, err := probe.New(o)
		if err != nil {
			t.Fatal(err)
		}
		m.AddPod(pods[0])
		runFor(t, m, 100*time.Millisecond)
		select {
		case <-events.said:
		default:
			t.Error("the event comes after the end")
		}
		<-events.said
	})
}

type failing struct{}

func (failing) Probe(context.Context, probe.Target) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Failure, Output: "no"}, nil
}
