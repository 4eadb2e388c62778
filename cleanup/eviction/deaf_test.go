package eviction

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDeafStatsForHours: IN6. Stats that never return for any pod, on a node that is low on memory for hours and gets a new
// pod for each that it evicts, cost a bounded number of goroutines; pods go all the same, for the node's and for their own limits.
func TestDeafStatsForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
		n := &node{readings: reading(MemoryAvailable, 10), holds: 29 * time.Second, volumes: map[types.UID][]Volume{}}
		const first = 20
		for i := range first {
			n.pods = append(n.pods, pod(fmt.Sprint("first-", i)))
		}
		var open, gone, over atomic.Int32
		answer := make(chan struct{})
		n.uses = func(context.Context, *v1.Pod) (Usage, error) {
			open.Add(1)
			defer open.Add(-1)
			<-answer
			return Usage{}, nil
		}
		var latest time.Duration
		n.refuses = func(p *v1.Pod, _ *int64) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.log = nil
			next := pod(fmt.Sprint("later-", gone.Add(1)))
			n.pods = append(n.pods, next)
			if since, isOver := strings.CutPrefix(p.Name, "over "); isOver {
				over.Add(1)
				at, err := time.ParseDuration(since)
				if err != nil {
					t.Error(err)
				}
				latest = max(latest, time.Since(n.begin)-at)
			}
			return nil
		}
		const hours = 18
		for hour := range hours - 1 {
			at := time.Duration(hour)*time.Hour + time.Hour
			n.at(at, func() {
				p := pod("over " + at.String())
				n.pods = append(n.pods, p)
				n.volumes[p.UID] = []Volume{{Name: "cache", Path: full, Limit: 10 << 10}}
			})
		}
		n.run(t, hours*time.Hour, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
		const bound = 1024 + first + hours*6
		if n := open.Load(); n > bound {
			t.Errorf("%d calls are open", n)
		}
		if n := gone.Load(); n < max(hours*60, bound) {
			t.Errorf("only %d pods were evicted", n)
		}
		if over.Load() != hours-1 || latest > 2*time.Minute {
			t.Errorf("%d pods were evicted for their own limits, %v after they were above them at the latest", over.Load(), latest)
		}
		close(answer)
		synctest.Wait()
	})
}

// TestDeafStorageCostsOneCall: FD2, IN6. A pod whose storage is never told costs one goroutine and one line of the log, and the
// limits of its volumes hold.
func TestDeafStorageCostsOneCall(t *testing.T) {
	for _, localOnly := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			full := files(t, map[string]string{"data": strings.Repeat("x", 64<<10)})
			n := &node{readings: reading(MemoryAvailable, 900), localOnly: localOnly, volumes: map[types.UID][]Volume{}}
			for i := range 100 {
				n.pods = append(n.pods, limitedPod(fmt.Sprint("p", i), "1Gi"))
			}
			var open, lines atomic.Int32
			answer := make(chan struct{})
			n.stores = func() { open.Add(1); <-answer }
			n.logger = funcr.New(func(_, args string) {
				if strings.Contains(args, "Not all of a pod's storage") {
					lines.Add(1)
				}
			}, funcr.Options{})
			n.at(3*time.Hour-2*time.Minute, func() { n.volumes["p50"] = []Volume{{Name: "cache", Path: full, Limit: 10 << 10}} })
			n.limited = func(p *v1.Pod) []Volume {
				n.mu.Lock()
				defer n.mu.Unlock()
				return n.volumes[p.UID]
			}
			_, got := n.run(t, 3*time.Hour, Policy{Thresholds: []Threshold{}})
			if !strings.Contains(got, "kill p50") || strings.Count(got, " kill ") != 1 || open.Load() != 100 || lines.Load() != 100 {
				t.Errorf("local only %v: %d calls, %d lines, happened:\n%s", localOnly, open.Load(), lines.Load(), got)
			}
			close(answer)
		})
	}
}

// TestStoppingPodsCostAPassOneTime: section 16: however many limits are due, what pods that are being stopped use is read within
// 3 s, all of it if one reading takes no longer than half of that.
func TestStoppingPodsCostAPassOneTime(t *testing.T) {
	for _, frees := range []uint64{0, 20} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{readings: map[Signal]Observation{}, pods: []*v1.Pod{pod("hog")}, frees: 900}
			signals := []Signal{MemoryAvailable, PIDAvailable, NodeFsAvailable, NodeFsInodesFree, ImageFsAvailable, ImageFsInodesFree}
			var hard, soft []string
			for _, s := range signals {
				n.readings[s] = Observation{Available: 10, Capacity: 1000}
				hard, soft = append(hard, string(s)+"<100"), append(soft, string(s)+"<110")
			}
			for i := range 100 {
				n.leaving = append(n.leaving, pod(fmt.Sprint("leaver-", i)))
			}
			n.reclaim = func(context.Context) { <-time.After(time.Hour) }
			n.uses = func(_ context.Context, p *v1.Pod) (Usage, error) {
				if p.Name != "hog" {
					<-time.After(time.Second)
				}
				return Usage{Memory: frees, PIDs: frees, Disk: frees, Inodes: frees}, nil
			}
			_, got := n.run(t, 15*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: strings.Join(hard, ","), Soft: strings.Join(soft, ","), SoftGrace: strings.Join(signalsWith(signals, "=1s"), ",")})})
			before, _, killed := strings.Cut(got, " kill ")
			at, err := time.ParseDuration(before[strings.LastIndex(before, "\n")+1:])
			if killed != (frees == 0) || killed && (err != nil || at > 4*time.Second) {
				t.Errorf("each frees %d, happened:\n%s", frees, got)
			}
			<-time.After(time.Hour)
		})
	}
}

func signalsWith(signals []Signal, suffix string) (out []string) {
	for _, s := range signals {
		out = append(out, string(s)+suffix)
	}
	return out
}

// TestPartlyReadNodeCounts: section 16: what was read of the node when the time for it is over counts: a runtime that does not
// say where its images are keeps no pod that uses too much memory.
func TestPartlyReadNodeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{readings: reading(MemoryAvailable, 10), pods: []*v1.Pod{pod("hog")}, frees: 900}
		n.machine = func(ctx context.Context) (map[Signal]Observation, error) {
			<-ctx.Done()
			readings, _ := n.read()
			return readings, context.Cause(ctx)
		}
		_, got := n.run(t, 15*time.Second, Policy{Thresholds: thresholds(t, Text{Hard: "memory.available<100"})})
		if !strings.Contains(got, "10s kill hog") {
			t.Errorf("happened:\n%s", got)
		}
	})
}
