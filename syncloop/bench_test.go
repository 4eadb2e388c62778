package syncloop

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
)

// newPods returns n pods of a usual size.
func newPods(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("%032x", i), fmt.Sprintf("pod-%d", i), func(p *v1.Pod) {
			p.Labels = map[string]string{"app": "web", "tier": "front"}
			p.Annotations = map[string]string{"note": "x", podinfo.AnnotationHash: string(p.UID)}
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
			p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			c := &p.Spec.Containers[0]
			c.Env = []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
			c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
			c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("64Mi")}
			c.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 10}
		})
	}
	return pods
}

// BenchmarkMux delivers a full set in which one pod has changed.
func BenchmarkMux(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			m, err := newMetrics(nil)
			if err != nil {
				b.Fatal(err)
			}
			x := newMux([]member{{source: newScripted("file"), name: "file"}, {source: newScripted("other"), name: "other"}}, clock.RealClock{}, nil, m)
			pods := newPods(n)
			if err := x.deliver(b.Context(), "file", pods); err != nil {
				b.Fatal(err)
			}
			<-x.queue
			images := []string{"app:1", "app:2"}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				pods[n/2].Spec.Containers[0].Image = images[(i+1)%2]
				if err := x.deliver(b.Context(), "file", pods); err != nil {
					b.Fatal(err)
				}
				if got := <-x.queue; len(got.operations) != 1 {
					b.Fatalf("operations: %v", show(got.operations))
				}
			}
		})
	}
}

// BenchmarkBurst delivers 5,000 new pods at once and reports the longest
// iterations of the loop (B11).
func BenchmarkBurst(b *testing.B) {
	const n = 5000
	pods := newPods(n)
	var durations []time.Duration
	for range b.N {
		source := newScripted("file")
		count, done := 0, make(chan struct{})
		loop, err := New(func(Work) {
			if count++; count == n {
				close(done)
			}
		}, Options{Sources: []Source{source}})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		if err := loop.mux.deliver(ctx, "file", pods); err != nil {
			b.Fatal(err)
		}
		loop.take(ctx, <-loop.mux.queue)
		for !loop.pending.empty() {
			begin := time.Now()
			loop.handle(ctx, laneChange, chunk)
			durations = append(durations, time.Since(begin))
		}
		<-done
		cancel()
	}
	slices.Sort(durations)
	b.ReportMetric(float64(durations[len(durations)*99/100].Microseconds())/1000, "p99-ms/iteration")
}
