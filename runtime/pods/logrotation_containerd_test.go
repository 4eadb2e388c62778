//go:build containerd

package pods_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// talking starts a pod whose container writes numbered lines as fast as it can, and
// returns the folder of its logs. It writes until there is a file stop in the folder
// returned last, and then exits.
func (r *real) talking(name string) (pod *v1.Pod, logs, control string) {
	r.t.Helper()
	control = r.t.TempDir()
	pod = &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, DNSPolicy: v1.DNSDefault}}
	pod.Name, pod.Namespace, pod.UID = name, "default", types.UID("uid-"+name)
	c := r.container("app", `i=0; while [ ! -e /control/stop ]; do n=$((i+200)); while [ $i -lt $n ]; do echo "line $i of many, which say nothing but their number"; i=$((i+1)); done; sleep 0.02; done; echo "end $i"`)
	c.VolumeMounts = []v1.VolumeMount{{Name: "control", MountPath: "/control"}}
	pod.Spec.Containers = []v1.Container{c}
	pod.Spec.Volumes = []v1.Volume{{Name: "control", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: control}}}}
	r.until(pod, "the container runs", func(s *runtime.PodStatus) bool {
		return s.Container("app") != nil && s.Container("app").State == runtime.Running
	})
	return pod, filepath.Join(r.opts.LogDir, "default_"+name+"_"+string(pod.UID), "app"), control
}

// logLines reads the texts of all log files in reading order (spec/runtime.md 18.4).
func logLines(t *testing.T, dir string) (lines, files []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "0.log" {
			files = append(files, e.Name())
		}
	}
	files = append(files, "0.log")
	partial := "" // what was read of a line that the runtime wrote in parts
	for _, name := range files {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var text io.Reader = file
		if strings.HasSuffix(name, ".gz") {
			if text, err = gzip.NewReader(file); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		all, err := io.ReadAll(text)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for line := range strings.Lines(string(all)) {
			fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
			if len(fields) != 4 || fields[1] != "stdout" {
				t.Fatalf("18.3: %s: line %q", name, line)
			}
			switch fields[2] {
			case "P":
				partial += fields[3]
			case "F":
				lines = append(lines, partial+fields[3])
				partial = ""
			default:
				t.Fatalf("18.3: %s: tag of line %q", name, line)
			}
		}
	}
	if partial != "" {
		t.Fatalf("18.3: the log ends in the middle of line %q", partial)
	}
	return lines, files
}

// wantSequence checks that the lines go on without a gap or a repetition to the end,
// from the first one ever written if complete.
func wantSequence(t *testing.T, lines []string, complete bool) {
	t.Helper()
	var first, n int
	// The oldest file that is kept may begin in the middle of a line.
	if !complete && !strings.HasPrefix(lines[0], "line ") {
		lines = lines[1:]
	}
	if _, err := fmt.Sscanf(lines[0], "line %d of", &first); err != nil || complete && first != 0 {
		t.Fatalf("the first line is %q, err %v", lines[0], err)
	}
	for i, line := range lines[:len(lines)-1] {
		if want := fmt.Sprintf("line %d of many, which say nothing but their number", first+i); line != want {
			t.Fatalf("line %q, want %q", line, want)
		}
	}
	if _, err := fmt.Sscanf(lines[len(lines)-1], "end %d", &n); err != nil || n != first+len(lines)-1 {
		t.Fatalf("the last line is %q after %d lines from %d", lines[len(lines)-1], len(lines)-1, first)
	}
}

// finish has the container end and waits for it.
func (r *real) finish(pod *v1.Pod, control string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(control, "stop"), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.until(pod, "the container has ended", func(s *runtime.PodStatus) bool {
		return s.Container("app").State == runtime.Exited
	})
}

// followed reads a log while it is written, as kubectl logs -f does; the function that it returns
// is called once the container has ended, and returns the lines.
func (r *real) followed(pod *v1.Pod) func() []string {
	r.t.Helper()
	t := r.t
	var gone atomic.Bool
	var text bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- containerlog.New(r.opts.LogDir, nil).Copy(t.Context(), containerlog.Of(pod.Namespace, pod.Name, pod.UID, "app", 0),
			containerlog.Options{Follow: true, Ended: gone.Load}, &text)
	}()
	return func() []string {
		t.Helper()
		gone.Store(true)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	}
}

// spec/runtime.md 18.1, 18.3, 18.4 on containerd: while a container writes, its log is
// rotated again and again. No line is lost, none is there twice, the number of files
// holds and compressed files are readable.
func TestContainerdLogRotation(t *testing.T) {
	r := newReal(t)
	for _, files := range []int{100, 3} {
		t.Run(fmt.Sprint(files, " files"), func(t *testing.T) {
			r.t = t
			pod, dir, control := r.talking(fmt.Sprint("talks-", files))
			followed := r.followed(pod)
			rotator, err := r.m.NewLogRotator(pods.LogRotation{MaxSize: 20_000, MaxFiles: files, Period: 100 * time.Millisecond}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- rotator.Run(ctx) }()
			clock.RealClock{}.Sleep(4 * time.Second)
			// It may have been stopped after the oldest went and before the next rotation.
			least := min(files-1, 3)
			patience.Until(t, "the container has written enough for so many files", func() bool {
				entries, err := os.ReadDir(dir)
				return err == nil && len(entries) > least
			})
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			r.finish(pod, control)
			wantSequence(t, followed(), true) // 27.4
			lines, names := logLines(t, dir)
			wantSequence(t, lines, files == 100)
			if len(names) > files || len(names) < least {
				t.Errorf("18.4: %d files, want %d to %d", len(names), least, files)
			}
			compressed := 0
			for _, name := range names {
				if strings.HasSuffix(name, ".gz") {
					compressed++
				}
			}
			if compressed < len(names)-2 {
				t.Errorf("18.4: %d of %d files are compressed", compressed, len(names))
			}
			t.Logf("%d lines in %d files", len(lines), len(names))
			if err := errors.Join(r.m.KillPod(t.Context(), pod, nil, nil), r.m.RemovePod(t.Context(), pod.UID)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The agent is killed between the rename and the reopening: the next look has the log
// opened again, and every line is there once.
func TestContainerdRotationCutShort(t *testing.T) {
	r := newReal(t)
	pod, dir, control := r.talking("cut")
	followed := r.followed(pod)
	rotator, err := r.m.NewLogRotator(pods.LogRotation{MaxSize: 20_000, MaxFiles: 50}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		clock.RealClock{}.Sleep(200 * time.Millisecond)
		name := filepath.Join(dir, "0.log")
		if err := os.Rename(name, fmt.Sprintf("%s.2020010%d-000000", name, i+1)); err != nil {
			t.Fatal(err)
		}
		clock.RealClock{}.Sleep(200 * time.Millisecond) // it goes on writing to the old file
		if err := rotator.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("18.4: not opened again: %v", err)
		}
	}
	r.finish(pod, control)
	wantSequence(t, followed(), true) // 27.4
	lines, names := logLines(t, dir)
	wantSequence(t, lines, true)
	t.Logf("%d lines in %v", len(lines), names)
}
