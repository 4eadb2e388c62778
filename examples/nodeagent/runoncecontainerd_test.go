//go:build containerd

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/podwright/podwright/internal/patience"
)

// TestContainerdRunOnce: RO1-RO4. Twenty jobs, a server and a pod without an image run once on a real
// runtime; a drain leaves nothing in it that runs.
func TestContainerdRunOnce(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	const jobs = 20
	for i := range jobs {
		name := fmt.Sprintf("job-%02d", i)
		writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image, fmt.Sprintf("exit %d", i%2), "  restartPolicy: Never", "  terminationGracePeriodSeconds: 1"))
	}
	writeManifest(t, manifests, "server.yaml", pod("server", runtime.Image, "sleep 1000", "  terminationGracePeriodSeconds: 1"))
	writeManifest(t, manifests, "absent.yaml", pod("absent", "localhost:1/absent:1", "true", "  terminationGracePeriodSeconds: 1"))
	code, out, logs := once(t, append(args, "--run-once-output", "json", "--run-once-start-limit", patience.Of(5*time.Second).String(), "--run-once-min-ready", "1s", "--drain")...)
	report := reportOf(t, out)
	if code != 1 || len(report.Pods) != jobs+2 {
		t.Fatalf("code %d, %d pods\n%s\n%s", code, len(report.Pods), out, logs)
	}
	for i, p := range report.Pods[1 : jobs+1] { // "absent" is the first by name
		if len(p.Containers) == 0 || p.Containers[0].ExitCode == nil {
			t.Errorf("%s has no exit code: %+v", p.Name, p)
			continue
		}
		want := map[bool]string{true: "Succeeded 0", false: "Failed 1"}[i%2 == 0]
		if got := fmt.Sprintf("%s %d", p.Outcome, *p.Containers[0].ExitCode); got != want {
			t.Errorf("%s: %s, want %s", p.Name, got, want)
		}
	}
	if p := report.Pods[0]; p.Outcome != "CannotRun" || p.Reason != "ErrImagePull" && p.Reason != "ImagePullBackOff" {
		t.Errorf("absent: %+v", p)
	}
	if p := report.Pods[jobs+1]; p.Outcome != "Running" {
		t.Errorf("server: %+v", p)
	}
	if left := runtime.Running(); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	t.Logf("%d pods in %v", len(report.Pods), report.Ended.Sub(report.Started))
}
