//go:build linux

package process

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BenchmarkLife is create, start, end and removal of a container.
func BenchmarkLife(b *testing.B) {
	for _, m := range modes() {
		b.Run(m.name, func(b *testing.B) {
			r, err := New(Options{Root: filepath.Join(b.TempDir(), "root"), Supervisor: m.supervisor})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = r.Close(b.Context()) }()
			sandbox, err := r.RunPodSandbox(b.Context(), &runtimeapi.PodSandboxConfig{
				Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod"}, LogDirectory: b.TempDir(),
			}, "")
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				id, err := r.CreateContainer(b.Context(), sandbox, shell("exit 0"), nil)
				if err == nil {
					err = r.StartContainer(b.Context(), id)
				}
				if err == nil {
					err = r.wait(b.Context(), r.container(id).exited)
				}
				if err == nil {
					err = r.RemoveContainer(b.Context(), id)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSupervisorMemory reports what one idle supervisor costs: memory of its
// own, not shared with other processes of the same binary.
func BenchmarkSupervisorMemory(b *testing.B) {
	r, err := New(Options{Root: filepath.Join(b.TempDir(), "root"), Supervisor: modes()[0].supervisor})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close(b.Context()) }()
	sandbox, err := r.RunPodSandbox(b.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod"}, LogDirectory: b.TempDir(),
	}, "")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.RemovePodSandbox(b.Context(), sandbox) }()
	id, err := r.CreateContainer(b.Context(), sandbox, shell("sleep 1000"), nil)
	if err == nil {
		err = r.StartContainer(b.Context(), id)
	}
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		private, shared := memory(b, r.containers[id].run.supervisor.Identity().PID)
		b.ReportMetric(private, "private-KiB")
		b.ReportMetric(shared, "shared-KiB")
	}
}

// memory reads the resident memory of a process, in KiB.
func memory(b *testing.B, pid int) (private, shared float64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		var n float64
		_, _ = fmt.Sscan(value, &n)
		switch name {
		case "Private_Clean", "Private_Dirty":
			private += n
		case "Shared_Clean", "Shared_Dirty":
			shared += n
		}
	}
	return private, shared
}
