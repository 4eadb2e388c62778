package images

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/cri"
)

// store answers one question, as it is told.
type store struct {
	cri.ImageService
	mu      sync.Mutex
	asked   int
	took    time.Duration
	absent  bool
	err     error
	hangs   int // this many calls never answer
	panics  bool
	stopped chan struct{}
}

func (s *store) ImageStatus(ctx context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	s.asked++
	hang := s.asked <= s.hangs
	s.mu.Unlock()
	if s.panics {
		panic("told to")
	}
	if hang {
		<-s.stopped
	}
	if timing.Sleep(ctx, clock.RealClock{}, s.took) != nil {
		return nil, context.Cause(ctx)
	}
	if s.absent || s.err != nil {
		return &runtimeapi.ImageStatusResponse{}, s.err
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "id of " + spec.Image}}, nil
}

// crowd has n callers look for an image at once, and returns how many found it and how long it took.
func crowd(ctx context.Context, p *Puller, n int) (found int, took time.Duration) {
	began := time.Now()
	var mu sync.Mutex
	var callers sync.WaitGroup
	for range n {
		callers.Go(func() {
			if image, err := p.find(ctx, &runtimeapi.ImageSpec{Image: "app:1"}); err == nil && image.Ref != "" {
				mu.Lock()
				defer mu.Unlock()
				found++
			}
		})
	}
	callers.Wait()
	return found, time.Since(began)
}

// TestCrowdLooksForAnImageOnce: 9.12. What was found counts for 10 s, or until it is doubted; a
// failure, or an absence, counts only for those that asked at the same time.
func TestCrowdLooksForAnImageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{took: 100 * time.Millisecond}
		p := New(Options{Service: s, Clock: clock.RealClock{}})
		check := func(what string, asked, found int) {
			t.Helper()
			s.asked = 0
			if got, _ := crowd(t.Context(), p, 100); got != found || s.asked != asked {
				t.Errorf("%s: %d found, %d calls; want %d, %d", what, got, s.asked, found, asked)
			}
		}
		check("first", 1, 100)
		<-time.After(presentFor - time.Second)
		check("soon after", 0, 100)
		p.LookAgain("app:1", "")
		check("doubted", 1, 100)
		<-time.After(presentFor)
		check("later", 1, 100)
		p.Prune(time.Now().Add(presentFor))
		if len(p.looks) != 0 {
			t.Errorf("%d looks are kept", len(p.looks))
		}
		s.absent = true
		check("absent", 1, 0)
		s.absent = false
		check("pulled meanwhile", 1, 100)
		p.LookAgain("app:1", "")
		s.err = errors.New("told to")
		s.asked = 0
		if got, _ := crowd(t.Context(), p, 3); got != 0 || s.asked == 0 {
			t.Errorf("%d found in a store that fails", got)
		}
		if len(p.looks) != 0 {
			t.Errorf("%d failed looks are kept", len(p.looks))
		}
	})
}

// TestHungLookDelaysByMoments: 9.12, IN1. A look that is never answered delays others that share it by half a
// second, and those that come later not at all.
func TestHungLookDelaysByMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{hangs: 1, stopped: make(chan struct{})}
		p := New(Options{Service: s, Clock: clock.RealClock{}})
		hung := make(chan struct{})
		go func() { defer close(hung); _, _ = crowd(t.Context(), p, 1) }()
		synctest.Wait()
		if found, took := crowd(t.Context(), p, 100); found != 100 || took > lookPatience {
			t.Errorf("%d of 100 found in %v", found, took)
		}
		if found, took := crowd(t.Context(), p, 100); found != 100 || took > 0 {
			t.Errorf("%d of 100 found in %v", found, took)
		}
		close(s.stopped)
		<-hung
	})
}

// TestPanicOfALookIsNotShared: a service that panics leaves no look behind that others would wait for.
func TestPanicOfALookIsNotShared(t *testing.T) {
	p := New(Options{Service: &store{panics: true}, Clock: clock.RealClock{}})
	func() {
		defer func() { _ = recover() }()
		_, _ = p.find(t.Context(), &runtimeapi.ImageSpec{Image: "app:1"})
	}()
	if len(p.looks) != 0 {
		t.Error("a look is kept")
	}
}
