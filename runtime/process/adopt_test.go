//go:build linux

package process

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// A container that was adopted while no open files were left is read as soon as there are some: it would wait at its next
// write as soon as its pipe is full.
func TestOutputIsReadOnceItCanBe(t *testing.T) {
	r, clock := supervisedWithClock(t)
	dir := t.TempDir()
	id := runContainer(t, r, shell(waitForFile(dir+"/talk", "head -c 300000 /dev/zero | tr '\\0' '\\n'; touch "+dir+"/said; echo back; sleep 1000")))
	supervisor := info(t, r, id).SupervisorPID
	release := useDescriptors(t, 0)
	t.Cleanup(release)
	must(t, unix.Kill(supervisor, unix.SIGKILL))
	for range lookTimes - 1 {
		patience.Until(t, "the agent looks again later", clock.HasWaiters)
		clock.Step(lookAgain)
	}
	patience.Until(t, "the agent takes the supervisor's place", func() bool { return info(t, r, id).SupervisorPID == 0 })
	if err := r.ReopenContainerLog(t.Context(), id); err == nil {
		t.Error("a log that is not written was reopened")
	}
	release()
	touch(t, dir+"/talk")
	patience.Until(t, "the container has written more than a pipe holds", func() bool {
		clock.Step(tryAgain)
		_, err := os.Stat(dir + "/said")
		return err == nil
	})
	waitLine(t, r, id, "back")
	must(t, r.ReopenContainerLog(t.Context(), id))
	must(t, r.StopContainer(t.Context(), id, 0))
}

// The end of a container is noticed even if it could not be watched at first.
func TestContainerIsWatchedOnceItCanBe(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r, clock := runtimeOnClock(t, supervisor)
		working := r.watcher
		broken, err := osproc.NewWatcher()
		must(t, err)
		broken.Close()
		r.watcher = broken
		id := runContainer(t, r, shell("sleep 1000"))
		patience.Until(t, "it is tried again", clock.HasWaiters)
		r.watcher = working
		clock.Step(tryAgain)
		must(t, r.StopContainer(t.Context(), id, 0))
		if n := r.running(); n != 0 {
			t.Errorf("%d containers run", n)
		}
	})
}
