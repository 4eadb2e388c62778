package stats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/runtime/pods"
)

// volumes gives a machine pods with an emptyDir each, in folders of their names.
func (m *machineRoot) volumes(names ...string) {
	m.engine.storage = map[types.UID]pods.LocalStorage{}
	for i, name := range names {
		pod := m.pod(name)
		pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		m.engine.storage[pod.UID] = pods.LocalStorage{EmptyDirs: map[string]string{"data": "/" + name}}
		m.run(name, "app", fmt.Sprintf("c%d", i), 0, time.Second, 4096)
	}
}

// sizeOf returns the size of a pod's volume, nil if the summary has none.
func sizeOf(summary *stats.Summary, pod string) *stats.FsStats {
	for _, p := range summary.Pods {
		if p.PodRef.Name == pod && len(p.VolumeStats) > 0 {
			return &p.VolumeStats[0].FsStats
		}
	}
	return nil
}

// TestFolderThatHangs (KV1, KV3): a volume on which a mount hangs, its server being gone, has no size, or an older one. It
// takes other volumes their size once, if at all, holds up no later scrape, and is measured as soon as it answers.
func TestFolderThatHangs(t *testing.T) {
	for _, where := range []string{"at its root", "below"} {
		t.Run(where, func(t *testing.T) {
			m := newMachine(t, true)
			m.volumes("good", "stuck")
			synctest.Test(t, func(t *testing.T) {
				s := m.source()
				var looks atomic.Int32
				hang := make(chan struct{})
				wait := func(folder, at string) {
					if folder == "/stuck" && at == where {
						looks.Add(1)
						<-hang
					}
				}
				s.disk.inMemory = func(folder string, _ time.Time) *stats.FsStats { wait(folder, "at its root"); return nil }
				s.disk.walk = func(_ context.Context, folder string) (bytes, files uint64, err error) {
					wait(folder, "below")
					return 1, 1, nil
				}
				summary := func(atMost time.Duration) *stats.Summary {
					t.Helper()
					began := time.Now()
					got, err := s.Summary(t.Context(), false)
					if took := time.Since(began); err != nil || took > atMost {
						t.Fatalf("after %s: %v", took, err)
					}
					if _, lines := get(t, s.ServeResource, ""); !slices.Contains(lines, "scrape_error 0") {
						t.Errorf("%q", lines)
					}
					return got
				}
				summary(2100 * time.Millisecond)
				for range 3 {
					advance(t, 2*time.Second)
					if got := summary(0); sizeOf(got, "stuck") != nil || sizeOf(got, "good") == nil {
						t.Errorf("%+v", got.Pods)
					}
				}
				if n := looks.Load(); n != 1 {
					t.Errorf("it was looked at %d times", n)
				}
				close(hang)
				advance(t, 2*time.Second)
				first := sizeOf(summary(0), "stuck")
				if first == nil || *first.UsedBytes != 1 || looks.Load() != 2 {
					t.Fatalf("%+v after %d looks", first, looks.Load())
				}
				hang = make(chan struct{})
				advance(t, time.Minute)
				for range 2 {
					if got := sizeOf(summary(2100*time.Millisecond), "stuck"); got == nil || !got.Time.Equal(&first.Time) {
						t.Errorf("%+v, want %+v", got, first)
					}
					advance(t, 2*time.Second)
				}
				close(hang)
			})
		})
	}
}

// TestFoldersThatHang (KV3): 100 volumes that hang at once fail no scrape, and in the end take no time from any.
func TestFoldersThatHang(t *testing.T) {
	for where, cost := range map[string]time.Duration{"at their roots": 7 * time.Second, "below": 2050 * time.Millisecond} {
		t.Run(where, func(t *testing.T) {
			m := newMachine(t, true)
			var names []string
			for i := range 100 {
				names = append(names, fmt.Sprintf("p%d", i))
			}
			m.volumes(names...)
			synctest.Test(t, func(t *testing.T) {
				s := m.source()
				var looks atomic.Int32
				hang := make(chan struct{})
				defer close(hang)
				wait := func(at string) {
					if at == where {
						looks.Add(1)
						<-hang
					}
				}
				s.disk.inMemory = func(string, time.Time) *stats.FsStats { wait("at their roots"); return nil }
				s.disk.walk = func(context.Context, string) (bytes, files uint64, err error) { wait("below"); return 1, 1, nil }
				var last time.Duration
				for range 110 {
					began := time.Now()
					_, err := s.Summary(t.Context(), false)
					if last = time.Since(began); err != nil || last > cost {
						t.Fatalf("after %s: %v", last, err)
					}
					advance(t, 15*time.Second)
				}
				if n := looks.Load(); n != 100 || last != 0 {
					t.Errorf("%d looks, the last scrape took %s", n, last)
				}
			})
		})
	}
}

// TestScraperThatLeavesAWalk (KH6): the server need not wait for a walk that hangs when it ends.
func TestScraperThatLeavesAWalk(t *testing.T) {
	m := newMachine(t, true)
	m.volumes("stuck")
	synctest.Test(t, func(t *testing.T) {
		s := m.source()
		hang := make(chan struct{})
		defer close(hang)
		s.disk.inMemory = func(string, time.Time) *stats.FsStats { return nil }
		s.disk.walk = func(context.Context, string) (bytes, files uint64, err error) { <-hang; return 1, 1, nil }
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		began := time.Now()
		_, err := s.Summary(ctx, false)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 1100*time.Millisecond {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
