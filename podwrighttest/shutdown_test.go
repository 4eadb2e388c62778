package podwrighttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/shutdown"
	"github.com/podwright/podwright/syncloop/source"
)

// running returns the names of the containers that run.
func running(t *testing.T, n *podwrighttest.Node) (names []string) {
	t.Helper()
	all, err := n.Runtime().ListContainers(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.State.String() == "CONTAINER_RUNNING" {
			names = append(names, c.Metadata.Name)
		}
	}
	return names
}

// TestShutdownRightAfterARestart: pods without a worker are stopped too, and what is not known is
// not said to have stopped (section 16).
func TestShutdownRightAfterARestart(t *testing.T) {
	down := errors.New("the runtime is down")
	for name, test := range map[string]struct {
		waits, outage time.Duration
		fails         bool
	}{
		"at once":                          {0, 0, false},
		"a moment later":                   {50 * time.Millisecond, 0, false},
		"later":                            {5 * time.Second, 0, false},
		"the runtime is down for a second": {3 * time.Second, 4 * time.Second, false},
		"the runtime is down":              {3 * time.Second, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
				n.Add(podwrighttest.Pod("a"), podwrighttest.Pod("b"))
				n.WaitPhase("a", v1.PodRunning)
				n.WaitPhase("b", v1.PodRunning)
				n.Crash()
				if test.outage > 0 {
					mend := n.Fail(fake.ListPodSandbox, down)
					time.AfterFunc(test.outage, mend)
				}
				n.Start()
				if test.waits > 0 {
					n.Advance(test.waits)
				}
				began := time.Now()
				report, err := n.Engine().Shutdown(context.Background(), shutdown.Plan{})
				if took := time.Since(began); took > shutdown.DefaultTime+5*time.Second {
					t.Errorf("took %v", took)
				}
				if !test.fails {
					if err != nil || len(report.Pods) != 2 || len(running(t, n)) > 0 {
						t.Errorf("%+v, %v, running %v", report, err, running(t, n))
					}
					for _, p := range report.Pods {
						if !p.Stopped || !p.Released || p.Phase != v1.PodFailed {
							t.Errorf("%+v", p)
						}
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), "not known which pods run") || !report.Ended.IsZero() {
					t.Errorf("%+v, %v", report, err)
				}
			})
		})
	}
}

// TestPodsStoppedByAShutdownAfterARestart, some of them before they had a worker: static pods come
// back if the shutdown is cancelled, and with the next start; pods of the API stay Failed.
func TestPodsStoppedByAShutdownAfterARestart(t *testing.T) {
	for name, test := range map[string]struct {
		source           string
		late, outage     time.Duration // of the source, of the runtime
		cancelled, again bool
	}{
		"static, cancelled":              {"own", 0, 0, true, true},
		"static, source late, cancelled": {"own", 2 * time.Second, 0, true, true},
		"static, held, cancelled":        {"own", 0, 4 * time.Second, true, true},
		"static, done":                   {"own", 0, 0, false, true},
		"static, source late, done":      {"own", 2 * time.Second, 0, false, true},
		"API, cancelled":                 {"api", 0, 0, true, false},
		"API, source late, cancelled":    {"api", 2 * time.Second, 0, true, false},
		"API, source later, cancelled":   {"api", 20 * time.Second, 0, true, false},
		"API, held, cancelled":           {"api", 0, 4 * time.Second, true, false},
		"API, done":                      {"api", 2 * time.Second, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var from *source.Channel
			o := podwrighttest.Options{
				Programs: map[string]podwrighttest.Program{"slow/main": {IgnoresTERM: true}},
				Configure: func(c *podwright.Config) {
					from = source.NewChannel(source.ChannelOptions{Name: test.source, NodeName: "node", MaxPods: -1})
					c.Sources = []syncloop.Source{from}
				},
			}
			podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
				deliver := func() {
					_ = from.Set(context.Background(), []*v1.Pod{podwrighttest.Pod("web"), podwrighttest.Pod("slow")})
				}
				deliver()
				n.WaitPhase("web", v1.PodRunning)
				n.WaitPhase("slow", v1.PodRunning)
				n.Crash()
				if test.outage > 0 {
					time.AfterFunc(test.outage, n.Fail(fake.Status, errors.New("down")))
				}
				n.Start()
				time.AfterFunc(test.late, deliver)
				synctest.Wait()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if test.cancelled {
					time.AfterFunc(5*time.Second, cancel)
				}
				if report, err := n.Engine().Shutdown(ctx, shutdown.Plan{}); (err != nil) != test.cancelled || len(report.Pods) != 2 {
					t.Errorf("%+v, %v", report, err)
				}
				if !test.cancelled {
					n.Stop()
					n.Start()
					deliver()
				}
				n.Advance(time.Minute)
				for _, name := range []string{"web", "slow"} {
					p := n.Pod(name)
					if again := p.Status.Phase == v1.PodRunning; again != test.again || !again && p.Status.Reason != shutdown.Reason {
						t.Errorf("%s is %s %s", name, p.Status.Phase, p.Status.Reason)
					}
				}
			})
		})
	}
}

// TestShutdownWhileLeftoversStop: pods that no source wants are stopped by housekeeping already, with or without
// what is remembered of them; it is not said that they have stopped before they have.
func TestShutdownWhileLeftoversStop(t *testing.T) {
	for _, remembered := range []bool{true, false} {
		for _, waits := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second} {
			t.Run(fmt.Sprintf("remembered %v, after %v", remembered, waits), func(t *testing.T) {
				var fresh *checkpointtest.Disk
				o := podwrighttest.Options{
					Programs: map[string]podwrighttest.Program{"main": {IgnoresTERM: true}},
					Configure: func(c *podwright.Config) {
						if fresh != nil {
							c.Checkpoints.Store = checkpoint.NewFiles(&checkpointtest.Points{FS: fresh})
						}
					},
				}
				podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
					n.Add(podwrighttest.Pod("a"))
					n.WaitPhase("a", v1.PodRunning)
					n.Crash()
					if !remembered {
						fresh = &checkpointtest.Disk{}
					}
					n.Remove("a")
					n.Start()
					n.Advance(waits)
					began := time.Now()
					report, err := n.Engine().Shutdown(context.Background(), shutdown.Plan{})
					if names := running(t, n); err != nil || len(names) > 0 {
						t.Errorf("running %v, %+v, %v", names, report, err)
					}
					if took := time.Since(began); took > shutdown.DefaultTime+time.Second {
						t.Errorf("took %v", took)
					}
				})
			})
		}
	}
}

// TestShutdownAfterACancelledOne stops what the first one had told to stop, although no source has named it.
func TestShutdownAfterACancelledOne(t *testing.T) {
	var from *source.Channel
	o := podwrighttest.Options{
		Programs: map[string]podwrighttest.Program{"main": {IgnoresTERM: true}},
		Configure: func(c *podwright.Config) {
			from = source.NewChannel(source.ChannelOptions{Name: "api", NodeName: "node", MaxPods: -1})
			c.Sources = []syncloop.Source{from}
		},
	}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		_ = from.Set(context.Background(), []*v1.Pod{podwrighttest.Pod("a")})
		n.WaitPhase("a", v1.PodRunning)
		n.Crash()
		n.Start()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if _, err := n.Engine().Shutdown(ctx, shutdown.Plan{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("the first one was not cancelled")
		}
		report, err := n.Engine().Shutdown(context.Background(), shutdown.Plan{})
		if names := running(t, n); err != nil || len(names) > 0 || len(report.Pods) != 1 || !report.Pods[0].Stopped {
			t.Errorf("running %v, %+v, %v", names, report, err)
		}
	})
}

// TestShutdownSaysThatTheRunEnded, although its pods may go on.
func TestShutdownSaysThatTheRunEnded(t *testing.T) {
	for name, drainTimeout := range map[string]time.Duration{"at once": time.Millisecond, "after a while": 0} {
		t.Run(name, func(t *testing.T) {
			o := podwrighttest.Options{
				Programs:  map[string]podwrighttest.Program{"main": {StopsIn: 20 * time.Second}},
				Configure: func(c *podwright.Config) { c.Workers.DrainTimeout = drainTimeout },
			}
			podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
				n.Add(podwrighttest.Pod("a"), podwrighttest.Pod("b"))
				n.WaitPhase("a", v1.PodRunning)
				n.WaitPhase("b", v1.PodRunning)
				e, result := n.Engine(), make(chan error, 1)
				go func() {
					_, err := e.Shutdown(context.Background(), shutdown.Plan{})
					result <- err
				}()
				n.Advance(time.Second)
				n.Stop()
				if err := <-result; !errors.Is(err, podwright.ErrNotRunning) {
					t.Errorf("Shutdown: %v", err)
				}
				if last, err := e.LastShutdown(); err != nil || last.Began.IsZero() || !last.Ended.IsZero() {
					t.Errorf("last shutdown %+v, %v", last, err)
				}
			})
		})
	}
}

// TestPodThatWaitedForItsNameComesBack: a static pod that a cancelled shutdown told to stop before
// its predecessor had ended runs as soon as the node takes pods again (IN14).
func TestPodThatWaitedForItsNameComesBack(t *testing.T) {
	o := podwrighttest.Options{Programs: map[string]podwrighttest.Program{"main": {IgnoresTERM: true}}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		n.Add(podwrighttest.Pod("web"))
		n.WaitPhase("web", v1.PodRunning)
		edited := podwrighttest.Pod("web")
		edited.UID = "uid-web-2"
		n.Add(edited)
		n.Advance(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := n.Engine().Shutdown(ctx, shutdown.Plan{}); err == nil {
			t.Error("the shutdown was not cancelled")
		}
		n.Advance(time.Minute)
		synctest.Wait()
		if p := n.Pod("web"); p.UID != "uid-web-2" || p.Status.Phase != v1.PodRunning {
			t.Errorf("%s is %s %s", p.UID, p.Status.Phase, p.Status.Reason)
		}
	})
}
