package pleg

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// still is a runtime whose lists are made beforehand, so that a benchmark
// measures the generator alone.
type still struct {
	*script
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

func (s *still) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if f != nil {
		return s.script.ListPodSandbox(ctx, f)
	}
	return s.sandboxes, nil
}

func (s *still) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if f != nil {
		return s.script.ListContainers(ctx, f)
	}
	return s.containers, nil
}

// node returns a generator that knows pods of three containers each.
func node(tb testing.TB, pods int) (*still, *Generator) {
	tb.Helper()
	s := &still{script: newScript()}
	for i := range pods {
		uid := types.UID(fmt.Sprintf("6a3f9a52-5b0e-4e0c-9a53-%012d", i))
		s.pod(uid, "one", "two", "three")
	}
	var err error
	if s.sandboxes, err = s.script.ListPodSandbox(tb.Context(), nil); err != nil {
		tb.Fatal(err)
	}
	if s.containers, err = s.script.ListContainers(tb.Context(), nil); err != nil {
		tb.Fatal(err)
	}
	g, err := New(s, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	if err := g.Relist(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return s, g
}

func BenchmarkRelistUnchanged(b *testing.B) {
	for _, pods := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			_, g := node(b, pods)
			b.ReportAllocs()
			for b.Loop() {
				if err := g.Relist(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRelistOneChanged(b *testing.B) {
	for _, pods := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			s, g := node(b, pods)
			calls, states := s.statusCalls(), []runtimeapi.ContainerState{sExited, sRunning}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				c := s.containers[pods]
				c.State = states[n%2]
				s.script.containers[c.Id].State = c.State
				n++
				if err := g.Relist(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(s.statusCalls()-calls)/float64(n)/4, "inspections/op")
		})
	}
}

func BenchmarkCacheGet(b *testing.B) {
	s, g := node(b, 1000)
	uid := types.UID(s.sandboxes[500].Metadata.Uid)
	b.ReportAllocs()
	for b.Loop() {
		if status, err := g.Get(uid); err != nil || status == nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetNewerThanReady(b *testing.B) {
	s, g := node(b, 1000)
	uid := types.UID(s.sandboxes[500].Metadata.Uid)
	b.ReportAllocs()
	for b.Loop() {
		if status, err := g.GetNewerThan(b.Context(), uid, 0); err != nil || status == nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefreshUnchanged(b *testing.B) {
	s, g := node(b, 110)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	uid := types.UID(s.sandboxes[50].Metadata.Uid)
	b.ReportAllocs()
	for b.Loop() {
		after := g.Stamp()
		g.Refresh(uid)
		if _, err := g.GetNewerThan(ctx, uid, after); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	<-done
}
