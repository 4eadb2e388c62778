package enginetest_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
)

// TestReadOnlyDiskAtStart: CK8, on a real file system that is read-only when the agent starts: the
// engine maintains running pods and starts nothing new, health and Explain say why, and everything
// recovers once the disk can be written.
func TestReadOnlyDiskAtStart(t *testing.T) {
	root := t.TempDir()
	err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=4m")
	if errors.Is(err, unix.EPERM) {
		t.Skip("mounting a file system takes privileges; TestFullDiskLeavesRunningPodsAlone needs none")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	remount := func(flags uintptr) {
		if err := unix.Mount("tmpfs", root, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{}))
		n.root = root
		onDisk := func(c *podwright.Config) {
			c.Checkpoints.Store = checkpoint.NewFiles(checkpoint.Dir(filepath.Join(root, "state", "pods")))
		}
		first := n.agent(onDisk)
		first.set(newPod("web"))
		first.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(5 * time.Second)
		first.stop()

		remount(unix.MS_RDONLY)
		r := n.agent(onDisk)
		r.set(newPod("web"), newPod("new"))
		<-time.After(3 * time.Minute)
		if n.rt.Running("uid-web", "main") != 1 || starts(n.rt, "uid-web") != 1 || starts(n.rt, "uid-new") != 0 {
			t.Errorf("web started %d times, new %d times", starts(n.rt, "uid-web"), starts(n.rt, "uid-new"))
		}
		if err := r.engine.Healthy(); !errors.Is(err, unix.EROFS) {
			t.Errorf("health: %v", err)
		}
		if e, _ := r.engine.Explain("uid-new"); !strings.Contains(e.Checkpoint, "read-only") {
			t.Errorf("Explain: %q", e.Checkpoint)
		}
		remount(0)
		r.phase("uid-new", v1.PodRunning, 3*time.Minute)
		if err := r.engine.Healthy(); err != nil {
			t.Errorf("health: %v", err)
		}
		r.stop()
	})
}
