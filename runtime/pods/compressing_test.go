package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// dueLogs returns a rotator of logs that are all due, each with a rotated file.
func dueLogs(t *testing.T, logs int) *LogRotator {
	t.Helper()
	dir := t.TempDir()
	m := &Manager{options: Options{LogDir: dir, Clock: clock.RealClock{}}, runtime: fake.New(fake.Options{})}
	var due []*runtime.PodStatus
	for i := range logs {
		pod := &runtime.PodStatus{UID: types.UID(fmt.Sprint("uid-", i)), Name: "web", Namespace: "default"}
		log := filepath.Join(dir, logFolder(pod.Namespace, pod.Name, pod.UID), "app", "0.log")
		err := os.MkdirAll(filepath.Dir(log), 0o755)
		for _, path := range []string{log, log + ".20260101-000000"} {
			err = errors.Join(err, os.WriteFile(path, []byte("line\n"), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		pod.Containers = []*runtime.ContainerStatus{{
			ID: runtime.ContainerID{ID: fmt.Sprint("c-", i)}, Name: "app", State: runtime.Running, LogPath: log,
		}}
		due = append(due, pod)
	}
	r, err := m.NewLogRotator(LogRotation{MaxSize: 1}, func(context.Context) ([]*runtime.PodStatus, error) { return due, nil })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// 18.4: of many logs that are due together, one rotated file is compressed at a time, however long that takes.
func TestOneFileIsCompressedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := dueLogs(t, 20)
		var at, compressed atomic.Int32
		r.before = func(step string) error {
			switch {
			case strings.HasPrefix(step, "compress"):
				if n := at.Add(1); n > 1 {
					t.Errorf("%d files are compressed at once", n)
				}
				<-time.After(time.Second)
			case strings.HasSuffix(step, ".tmp"):
				at.Add(-1)
				compressed.Add(1)
			}
			return nil
		}
		if err := r.Rotate(t.Context()); err != nil || compressed.Load() != 20 {
			t.Errorf("%d files compressed, %v", compressed.Load(), err)
		}
	})
}

// 18.4, IN1: a file whose compression is stuck, as on a bad part of the disk, keeps no other log from its rotation.
func TestStuckCompressionHoldsNoOtherLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := dueLogs(t, 20)
		var began, rotated atomic.Int32
		free := make(chan struct{})
		r.before = func(step string) error {
			switch {
			case strings.HasPrefix(step, "compress") && began.Add(1) == 1:
				<-free
			case step == "rename 0.log":
				rotated.Add(1)
			}
			return nil
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = r.Rotate(t.Context())
		}()
		<-time.After(2 * time.Minute)
		if n := rotated.Load(); n != 19 {
			t.Errorf("%d of 19 logs were rotated", n)
		}
		close(free)
		<-ended
		if n := rotated.Load(); n != 20 {
			t.Errorf("%d of 20 logs were rotated", n)
		}
	})
}
