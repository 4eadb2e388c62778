package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestStateIsMadeOnceForAllPages: once per period however many pages are open, not while none is, and again for the
// next one; each page is told every change it is ready for, and one that never takes any holds up none.
func TestStateIsMadeOnceForAllPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		f := &stateFeed{state: func() *pageState { return &pageState{Node: fmt.Sprint(made.Add(1) / 2)} }} // every second one differs
		deaf := f.join()
		var pages sync.WaitGroup
		quit := make(chan struct{})
		var told atomic.Int64
		for range maxPageStreams - 1 {
			leave := f.join()
			pages.Go(func() {
				defer leave()
				for {
					line, changed, err := f.newest()
					if err != nil {
						t.Error(err)
					}
					if line != nil {
						told.Add(1)
					}
					select {
					case <-changed:
					case <-quit:
						return
					}
				}
			})
		}
		<-time.After(10*pagePeriod + pagePeriod/2)
		if got := made.Load(); got != 11 {
			t.Errorf("%d states were made in 10 periods", got)
		}
		if got, want := told.Load(), int64(6*(maxPageStreams-1)); got != want {
			t.Errorf("the pages were told %d times, want %d", got, want)
		}
		close(quit)
		pages.Wait()
		deaf()
		<-time.After(10 * pagePeriod)
		if got := made.Load(); got != 11 {
			t.Errorf("%d states were made after the last page was closed", got-11)
		}
		leave := f.join()
		synctest.Wait()
		if line, _, err := f.newest(); err != nil || string(line) == "" || made.Load() != 12 {
			t.Errorf("the next page: %q, %v", line, err)
		}
		leave()
	})
}

// podsOfPage are pods as an engine has them.
func podsOfPage(n int) []v1.Pod {
	pods := make([]v1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("pod-%d-edge-1", i)
		pods[i] = v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.example/app:1", Env: []v1.EnvVar{{Name: "A", Value: "b"}}}}},
			Status: v1.PodStatus{
				Phase: v1.PodRunning, PodIP: "10.1.2.3", StartTime: &metav1.Time{Time: time.Unix(1e9, 0)},
				ContainerStatuses: []v1.ContainerStatus{{Name: "main", Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}},
			},
		}
	}
	return pods
}

// BenchmarkPages is what one second of 24 open pages costs on a node with 100 pods: the state made by each page, and made once for all.
func BenchmarkPages(b *testing.B) {
	pods := podsOfPage(100)
	state := func() *pageState {
		s := &pageState{Node: "edge-1"}
		for i := range pods { // the engine's pods are the caller's: copies
			s.Pods = append(s.Pods, rowOf(pods[i].DeepCopy()))
		}
		return s
	}
	b.Run("each", func(b *testing.B) {
		for b.Loop() {
			for range maxPageStreams {
				if _, err := json.Marshal(state()); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("once", func(b *testing.B) {
		f, quit := &stateFeed{state: state, changed: make(chan struct{})}, make(chan struct{})
		for b.Loop() {
			line, err := json.Marshal(f.state())
			f.publish(quit, line, err)
			for range maxPageStreams {
				if line, _, err := f.newest(); line == nil || err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
