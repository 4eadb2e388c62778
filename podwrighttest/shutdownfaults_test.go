package podwrighttest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/shutdown"
	"github.com/podwright/podwright/syncloop/source"
)

// deafLists is a runtime whose lists of all containers ignore the end of their context once it is deaf.
type deafLists struct {
	cri.RuntimeService
	deaf   *atomic.Bool
	answer chan struct{}
}

func (d deafLists) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if f == nil && d.deaf.Load() {
		<-d.answer
	}
	return d.RuntimeService.ListContainers(ctx, f)
}

// TestShutdownWithDeafLists: pods are told to stop although the runtime's list never comes, and the shutdown
// ends, with an error because others may run: then static pods come back (section 16).
func TestShutdownWithDeafLists(t *testing.T) {
	var lists deafLists
	o := podwrighttest.Options{Configure: func(c *podwright.Config) {
		lists = deafLists{c.Runtime, &atomic.Bool{}, make(chan struct{})}
		c.Runtime = lists
	}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("a"))
		n.WaitPhase("a", v1.PodRunning)
		n.Advance(10 * time.Second)
		lists.deaf.Store(true)
		began := time.Now()
		report, err := n.Engine().Shutdown(context.Background(), shutdown.Plan{})
		if took := time.Since(began); err == nil || took > shutdown.DefaultTime+time.Second || len(report.Pods) != 1 || !report.Pods[0].Stopped {
			t.Errorf("%+v, %v after %v", report, err, took)
		}
		lists.deaf.Store(false)
		close(lists.answer)
	})
}

// failingSink is a sink that is away at times.
type failingSink struct{ away atomic.Bool }

func (s *failingSink) Store(context.Context, status.Update) (status.StoreResult, error) {
	if s.away.Load() {
		return 0, errors.New("away")
	}
	return status.Stored, nil
}

// TestShutdownWhoseEngineEndsBeforeItsList: a pod without a worker that was found when nothing could stop it any more
// is not said to have stopped, nor the shutdown to be complete (section 16).
func TestShutdownWhoseEngineEndsBeforeItsList(t *testing.T) {
	var named, silent *source.Channel
	sink := &failingSink{}
	o := podwrighttest.Options{Configure: func(c *podwright.Config) {
		named = source.NewChannel(source.ChannelOptions{Name: "named", NodeName: "node", MaxPods: -1})
		silent = source.NewChannel(source.ChannelOptions{Name: "silent", NodeName: "node", MaxPods: -1})
		c.Sources = []syncloop.Source{named, silent}
		c.Observe.Sinks = []status.StatusSink{sink} // the end of the engine waits for it
	}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		_ = named.Set(context.Background(), []*v1.Pod{podwrighttest.Pod("a")})
		_ = silent.Set(context.Background(), []*v1.Pod{podwrighttest.Pod("b")})
		n.WaitPhase("a", v1.PodRunning)
		n.WaitPhase("b", v1.PodRunning)
		n.Crash()
		sink.away.Store(true)
		n.Start()
		_ = named.Set(context.Background(), []*v1.Pod{podwrighttest.Pod("a")})
		n.Advance(2 * time.Second) // a has a worker again, b has none
		mend := n.Fail(fake.ListContainers, errors.New("down"))
		e, ended := n.Engine(), make(chan error, 1)
		var report shutdown.Report
		go func() {
			var err error
			report, err = e.Shutdown(context.Background(), shutdown.Plan{})
			ended <- err
		}()
		time.AfterFunc(1300*time.Millisecond, mend)
		n.Advance(time.Second)
		n.Stop()
		if err := <-ended; !errors.Is(err, podwright.ErrNotRunning) {
			t.Errorf("%+v, %v", report, err)
		}
		if last, err := e.LastShutdown(); err != nil || !last.Ended.IsZero() {
			t.Errorf("recorded as ended: %+v, %v", last, err)
		}
		found := false
		for _, p := range report.Pods {
			if found = found || p.Name == "b"; p.Name == "b" && (p.Stopped || p.Released) {
				t.Errorf("%+v, but %v run", p, running(t, n))
			}
		}
		if !found || len(running(t, n)) == 0 {
			t.Errorf("b was not found too late: %+v, %v run", report.Pods, running(t, n))
		}
	})
}
