//go:build linux

package process

import (
	"os"
	"testing"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// A container that cannot be shown, as its record cannot be read, does not run beside the one that its pod gets instead.
func TestUnreadableContainerIsKilled(t *testing.T) {
	damage := func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("garbage"), 0o600)) }
	// What a failing disk does: the record may be whole.
	fail := func(t *testing.T, path string) {
		must(t, os.Remove(path))
		must(t, os.Mkdir(path, 0o700))
	}
	remove := func(t *testing.T, path string) { must(t, os.Remove(path)) }
	for _, c := range []struct {
		name       string
		record     func(t *testing.T, path string)
		started    func(t *testing.T, path string)
		supervisor bool // it is killed before
	}{
		{name: "damaged", record: damage},
		{name: "failing disk", record: fail},
		{name: "supervisor killed", record: damage, supervisor: true},
		{name: "process not recorded", record: damage, started: remove},
		{name: "both damaged", record: damage, started: damage},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, supervisor Supervisor) {
				a := startAgent(t, supervisor.enabled(), "trap '' TERM; sleep 1000")
				started := startedOf(t, a)
				a.kill(t)
				if c.supervisor && supervisor.enabled() {
					must(t, osproc.KillSession(started.Supervisor))
					patience.Until(t, "the supervisor ends", func() bool { return gone(started.Supervisor) })
				}
				dir := a.root + "/" + containersDir + "/" + a.container + "/"
				c.record(t, dir+containerFile)
				if c.started != nil {
					c.started(t, dir+startedFile)
				}
				r := openRuntime(t, a.root, supervisor)
				if r.container(a.container) != nil {
					t.Error("the container is shown")
				}
				for _, id := range []osproc.Identity{started.Process, started.Supervisor} {
					patience.Until(t, "its processes end", func() bool { return id.IsZero() || gone(id) })
				}
			})
		})
	}
}

// A copy of a container's folder, as an operator makes it, says which process the container is. That process is not
// the copy's.
func TestCopyOfAContainerKillsNothing(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		a := startAgent(t, supervisor.enabled(), "trap 'echo term; exit' TERM; echo up; sleep 1000")
		a.kill(t)
		dir := a.root + "/" + containersDir + "/" + a.container
		must(t, os.Mkdir(dir+".bak", 0o700))
		for _, name := range []string{containerFile, startedFile} {
			data, err := os.ReadFile(dir + "/" + name)
			must(t, err)
			must(t, os.WriteFile(dir+".bak/"+name, data, 0o600))
		}
		r := openRuntime(t, a.root, supervisor)
		waitLine(t, r, a.container, "up")
		must(t, r.StopContainer(t.Context(), a.container, 30))
		waitLine(t, r, a.container, "term")
	})
}
