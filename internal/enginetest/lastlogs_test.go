package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
)

// TestLogsStayUntilTheEndIsStored: IN16, CK8. A pod ends and is removed while no agent runs; then
// the disk does not take the record of its end. Its logs and the file of its last message may be
// the only trace of it. They and its container stay as long as the trouble lasts, and go together.
func TestLogsStayUntilTheEndIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{WriteLogs: true, Script: func(fake.Launch) fake.Script {
			return fake.Script{Log: []fake.Line{{Every: time.Second, Text: "this is why"}}}
		}}))
		r := n.agent()
		web := newPod("web")
		r.set(web)
		r.phase(web.UID, v1.PodRunning, time.Minute)
		<-time.After(5 * time.Second)
		n.kill(r)
		if err := n.rt.Exit(web.UID, "main", fake.Exit{Code: 3}); err != nil {
			t.Fatal(err)
		}
		sandboxes, err := n.rt.ListPodSandbox(t.Context(), nil)
		if err != nil || n.rt.StopPodSandbox(t.Context(), sandboxes[0].GetId()) != nil {
			t.Fatal(err)
		}
		var broken atomic.Bool
		broken.Store(true)
		disk := &checkpointtest.Points{FS: n.disk, Before: func(op checkpointtest.Op) error {
			if broken.Load() && (op.Kind == "write" || op.Kind == "rename") {
				return syscall.EIO
			}
			return nil
		}}
		r = n.agent(func(c *podwright.Config) { c.Checkpoints.Store = checkpoint.NewFiles(disk) })
		r.set()
		log := filepath.Join(n.root, "logs", "default_web_uid-web", "main", "0.log")
		for range 30 {
			<-time.After(10 * time.Second)
			left := n.rt.Facts(web.UID, "main")
			if _, err := os.Stat(log); err != nil {
				t.Fatalf("its log: %v; %+v", err, left)
			}
			if files, err := filepath.Glob(filepath.Join(n.root, "pods", "uid-web", "containers", "main", "*")); err != nil || len(files) != 1 {
				t.Fatalf("the file of its last message: %v, %v; %+v", files, err, left)
			}
		}
		synctest.Wait()
		broken.Store(false)
		r.empty(10 * time.Minute)
		r.within(time.Minute, "nothing to be left", func() error {
			for _, left := range []string{log, filepath.Join(n.root, "pods", "uid-web")} {
				if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
					return fmt.Errorf("%s: %w", left, err)
				}
			}
			return nil
		})
	})
}
