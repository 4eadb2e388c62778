package pleg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// S2: an object that vanishes between list and status is skipped, the rest of the
// pod is shown.
func TestObjectThatVanishesWhileBeingReadIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c", "d")
		b.fail(func(_ context.Context, method, id string) error {
			if id == "p/c" {
				b.remove("p", "c")
			}
			return nil
		})
		b.relist()
		b.expect("read", "p: Started")
		if got := fmt.Sprint(b.states("p")); got != "[p/d=running p/s0=running]" {
			t.Errorf("status %s", got)
		}
	})
}

// R1: one relist at a time. PI10, PI11: a pod has one reader at a time, whatever
// asks for it.
func TestPodHasOneReaderAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Period: time.Millisecond})
		for i := range 5 {
			b.pod(types.UID(fmt.Sprint(i)), "c")
		}
		var mu sync.Mutex
		now, lists := map[string]int{}, 0
		flips := 0
		b.fail(func(_ context.Context, method, id string) error {
			mu.Lock()
			key := method
			if uid, _, ok := strings.Cut(id, "/"); ok {
				key = "pod " + uid
			} else if id != "" {
				key = "pod " + id
			}
			now[key]++
			if now[key] > 1 && (strings.HasPrefix(key, "pod ") || key == "ListPodSandbox") {
				t.Errorf("two readers at a time: %s", key)
			}
			lists++
			mu.Unlock()
			<-time.After(10 * time.Microsecond)
			mu.Lock()
			defer mu.Unlock()
			now[key]--
			flips++
			return nil
		})
		stop := b.run()
		var callers sync.WaitGroup
		for i := range 5 {
			uid := types.UID(fmt.Sprint(i))
			callers.Go(func() {
				for n := range 30 {
					state := sRunning
					if n%2 == 0 {
						state = sExited
					}
					b.container(uid, "c", state)
					b.Refresh(uid)
					if _, err := b.ReadNow(t.Context(), uid); err != nil {
						t.Error(err)
					}
				}
			})
			callers.Go(func() {
				for range 10 {
					if err := b.Relist(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
		stop()
	})
}

// C9, R11: what is published is never modified, also to keep addresses.
func TestPublishedStatusIsNeverModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.relist()
		b.sandbox("p", 0, sNotReady, "")
		s, err := b.view.Read(t.Context(), "p")
		if err != nil || !b.Publish(s) {
			t.Fatalf("publish: %v", err)
		}
		if len(s.IPs) != 0 {
			t.Error("Publish wrote into the caller's status")
		}
		if got, _ := b.Get("p"); len(got.IPs) != 1 {
			t.Errorf("kept addresses: %v", got.IPs)
		}
	})
}

// E2, V4: the event carries the ID, the log the exit code. A failed reading and a
// container that died are logged after the lock is free: a logger may ask back.
func TestDeathsAndFailedReadingsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		var b *bench
		log := funcr.New(func(_, args string) {
			b.Dump() // would deadlock under the lock
			lines.WriteString(args + "\n")
		}, funcr.Options{Verbosity: 1})
		asks := log.WithSink(askingSink{log.GetSink(), func() { b.Dump() }})
		b = newBench(t, Options{Logger: asks, ConfirmVanished: -1})
		b.pod("p", "c")
		b.relist()
		b.container("p", "c", sExited, 42)
		b.relist()
		b.expect("died", "p: Started|Died [p/c]")
		if !strings.Contains(lines.String(), `"exitCode"=42`) {
			t.Errorf("log: %s", lines.String())
		}
		b.container("p", "c", sRunning)
		b.fail(failing("ContainerStatus", "p/c", errors.New("boom")))
		b.relist()
		if !strings.Contains(lines.String(), "boom") {
			t.Errorf("log: %s", lines.String())
		}
		b.remove("p")
		b.relist()
		b.expect("gone without a status", "p: Died|Removed [p/s0]")
	})
}

// askingSink is a sink that asks back before it says whether it is enabled.
type askingSink struct {
	logr.LogSink
	ask func()
}

func (s askingSink) Enabled(level int) bool {
	s.ask()
	return s.LogSink.Enabled(level)
}

// Edge case 34: the gauge of a state falls to zero; H3: the time of the last list
// is exported. Section 11: running pods are counted once.
func TestGaugesFallToZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c", "d")
		b.sandbox("p", 1, sReady, "")
		b.sandbox("q", 0, sNotReady, "")
		b.relist()
		f := b.figures()
		if f.count.runningPods != 1 || f.count.containers[runtime.Running] != 2 || f.lastSeen.IsZero() || f.pods != 2 {
			t.Errorf("figures: %+v", f)
		}
		b.container("p", "c", sExited)
		b.remove("p", "d")
		b.relist()
		if f := b.figures(); f.count.containers[runtime.Running] != 0 || f.count.containers[runtime.Exited] != 1 {
			t.Errorf("34: figures: %+v", f.count)
		}
		b.relist()
		if f := b.figures(); f.count.unchanged != 2 {
			t.Errorf("unchanged: %+v", f.count)
		}
	})
}

// B11: the dump names everything, in order, with the reason why a pod is
// outstanding.
func TestDumpNamesEverythingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("q", "c")
		b.pod("p", "c")
		b.relist()
		b.Hold("q")
		b.container("q", "c", sExited)
		b.container("p", "c", sExited)
		b.fail(failing("ContainerStatus", "p", errors.New("boom")))
		b.relist()
		d := b.Dump()
		if len(d.Pods) != 2 || d.Pods[0].UID != "p" || d.Global == 0 {
			t.Fatalf("dump: %+v", d)
		}
		if p := d.Pods[0]; p.Err == nil || p.Modified != d.Global || p.Outstanding != "" || p.ObservedAt.IsZero() {
			t.Errorf("failed pod: %+v", p)
		}
		if q := d.Pods[1]; q.Outstanding != "held" || !q.Held || q.Modified >= d.Global || q.Observed >= d.Global {
			t.Errorf("held pod: %+v", q)
		}
	})
}
