//go:build containerd

package pods_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
)

// spec/runtime.md 16.2, 16.6 on a real runtime: a container that ignores SIGTERM,
// told to stop within 600 s and 5 s later within 1 s, is dead one second after
// that. If the minimum started again, it would live another second.
func TestContainerdGraceShrinks(t *testing.T) {
	r := newReal(t)
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSDefault,
		Containers: []v1.Container{r.container("app", "trap '' TERM; echo deaf; while :; do sleep 0.1; done")},
	}}
	pod.Name, pod.Namespace, pod.UID = "stubborn", "default", "shrink-1"
	status := r.until(pod, "app runs", func(s *runtime.PodStatus) bool {
		return s.Container("app") != nil && s.Container("app").State == runtime.Running
	})
	patience.Until(t, "the shell has set its trap", func() bool {
		log, err := os.ReadFile(filepath.Join(r.opts.LogDir, "default_stubborn_shrink-1/app/0.log"))
		return err == nil && strings.Contains(string(log), "deaf")
	})
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := r.m.KillPod(ctx, pod, status, ptr.To[int64](600)); !errors.Is(err, runtime.ErrDeadline) {
		t.Fatalf("the long kill: %v", err)
	}
	interrupted := time.Since(began)
	if err := r.m.KillPod(t.Context(), pod, r.read(pod), ptr.To[int64](1)); err != nil {
		t.Fatal(err)
	}
	dead := r.read(pod).Container("app").FinishedAt.Sub(began)
	t.Logf("interrupted after %v, dead after %v, done after %v", interrupted, dead, time.Since(began))
	if dead < 5900*time.Millisecond || dead > 6*time.Second+patience.Of(500*time.Millisecond) {
		t.Errorf("dead after %v, want 6 s and little more", dead)
	}
}
