package status

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestEverySinkGetsTheLastStatus lets everything happen at once, on sinks that fail and hang at
// random: the versions of a pod only rise, and once the faults end, every sink has what the manager
// has.
func TestEverySinkGetsTheLastStatus(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { concurrentUse(t, seed) })
	}
}

// faulty is a sink with random faults until it is mended.
type faulty struct {
	t      *testing.T
	mu     sync.Mutex
	random *rand.Rand
	mended bool
	// lives: pods have several, and each counts its versions.
	lives bool
	last  map[types.UID]Update
}

func (f *faulty) Store(ctx context.Context, u Update) (StoreResult, error) {
	f.mu.Lock()
	dice := f.random.IntN(8)
	if f.mended {
		dice = 7
	}
	f.mu.Unlock()
	switch dice {
	case 0:
		return 0, errors.New("no")
	case 1:
		<-ctx.Done()
		return 0, ctx.Err()
	case 2:
		panic("oh no")
	case 3:
		if u.Forgotten {
			f.keep(u) // it has no such pod, so nothing to forget
		}
		return Gone, nil
	case 4:
		return Conflict, nil
	}
	f.keep(u)
	return Stored, nil
}

func (f *faulty) keep(u Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before, ok := f.last[u.UID]; ok && u.Version < before.Version && !f.lives {
		f.t.Errorf("%s: version %d after %d", u.UID, u.Version, before.Version)
	}
	f.last[u.UID] = u
}

// onFaultySinks starts a manager on three sinks.
func onFaultySinks(t *testing.T, seed uint64, lives bool) (sinks []*faulty, m *Manager) {
	var all []StatusSink
	for i := range uint64(3) {
		f := &faulty{t: t, random: rand.New(rand.NewPCG(seed, i)), lives: lives, last: map[types.UID]Update{}}
		sinks, all = append(sinks, f), append(all, f)
	}
	return sinks, started(t, Options{Sinks: all, MaxInFlight: 3, History: 8})
}

// mendAll ends the faults, and returns once everything that has failed was tried again.
func mendAll(t *testing.T, sinks []*faulty, m *Manager) {
	t.Helper()
	for _, f := range sinks {
		f.mu.Lock()
		f.mended = true
		f.mu.Unlock()
	}
	advance(t, 2*time.Minute) // longer than any back-off, resync or time-out
	if err := m.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

func concurrentUse(t *testing.T, seed uint64) {
	sinks, m := onFaultySinks(t, seed, false)
	const pods = 12
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(100+w)))
			for i := range 60 {
				pod := newPod(uid(types.UID(fmt.Sprint("uid-", random.IntN(pods)))), apps("a0"))
				switch random.IntN(6) {
				case 0:
					m.SetContainerReadiness(pod.UID, id("a0", 0), random.IntN(2) == 0)
				case 1:
					m.SetContainerStartup(pod.UID, id("a0", 0), random.IntN(2) == 0)
				case 2:
					m.ObservePod(pod)
				default:
					s := withPhase(v1.PodRunning, scene(newPod(), "A R"))
					s.Message = fmt.Sprint(w, i)
					if err := m.SetPodStatus(pod, *s); err != nil {
						t.Error(err)
					}
				}
				if random.IntN(4) == 0 {
					<-time.NewTimer(time.Duration(random.IntN(3000)) * time.Millisecond).C
				}
			}
		})
	}
	writers.Wait()
	mendAll(t, sinks, m)
	if problems := m.Problems(); problems != nil {
		t.Error(problems)
	}
	list, _ := m.watch()
	for _, c := range list {
		for i, s := range sinks {
			got := s.last[c.UID]
			// A readiness that changed and changed back needs no send.
			if got.Version > c.Version || got.Status == nil || got.Version < c.Version && !equalStatus(got.Status, c.Status, 0) || got.Status.Message != c.Status.Message {
				t.Errorf("sink %d has %s at version %d, the manager at %d", i, c.UID, got.Version, c.Version)
			}
		}
	}
}

// TestEverySinkHearsHowEachPodEnds: FG1, HI2. Pods are forgotten and come back under their UIDs, on sinks that fail and hang
// at random. Once the faults end, every sink has the last life of each pod, or knows that there is none, and the manager
// keeps nothing of what is told.
func TestEverySinkHearsHowEachPodEnds(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { manyLives(t, seed) })
		})
	}
}

func manyLives(t *testing.T, seed uint64) {
	sinks, m := onFaultySinks(t, seed, true)
	var owners sync.WaitGroup
	var mu sync.Mutex
	wanted := map[types.UID]string{} // the last message, empty for a pod that is forgotten
	for w := range 4 {
		owners.Go(func() { // each has pods of its own
			random := rand.New(rand.NewPCG(seed, uint64(100+w)))
			for i := range 60 {
				pod, message := newPod(uid(types.UID(fmt.Sprint("uid-", w, "-", random.IntN(3)))), apps("a0")), ""
				if random.IntN(3) == 0 {
					m.Forget(pod.UID)
				} else {
					s := withPhase(v1.PodRunning, scene(newPod(), "A R"))
					message = fmt.Sprint(w, " ", i)
					s.Message = message
					if err := m.SetPodStatus(pod, *s); err != nil {
						t.Error(err)
					}
				}
				mu.Lock()
				wanted[pod.UID] = message
				mu.Unlock()
				if random.IntN(2) == 0 {
					<-time.NewTimer(time.Duration(random.IntN(3000)) * time.Millisecond).C
				}
			}
		})
	}
	owners.Wait()
	mendAll(t, sinks, m)
	for uid, message := range wanted {
		for i, f := range sinks {
			got, heard := f.last[uid]
			switch {
			case message == "" && heard && !got.Forgotten:
				t.Errorf("sink %d does not know that %s is forgotten: %+v", i, uid, got)
			case message != "" && (got.Forgotten || got.Status == nil || got.Status.Message != message):
				t.Errorf("sink %d has %+v of %s, want %q", i, got, uid, message)
			}
		}
		if m.Untold(uid) != (message != "") {
			t.Errorf("%s: something is left to tell: %v", uid, m.Untold(uid))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range m.senders {
		if len(s.pods) != len(m.pods) || s.failing != 0 {
			t.Errorf("sink %d: %d deliveries for %d pods, %d fail", i, len(s.pods), len(m.pods), s.failing)
		}
	}
}
