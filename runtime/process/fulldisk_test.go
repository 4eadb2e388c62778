//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/process/internal/crilog"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// smallDisk returns the folder of a runtime on a file system of 1 MiB.
func smallDisk(t *testing.T) (root string) {
	t.Helper()
	disk := t.TempDir()
	switch err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); {
	case errors.Is(err, unix.EPERM):
		t.Skip("mounting a file system takes privileges")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(disk, "root")
}

// fill fills the disk that a runtime is on. The returned function makes room again.
func fill(t *testing.T, root string) (free func()) {
	t.Helper()
	path := filepath.Join(filepath.Dir(root), "filler")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for block := bytes.Repeat([]byte("x"), 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return func() { must(t, os.Remove(path)) }
}

// recorded is the record of a sandbox on disk.
func recorded(t *testing.T, r *Runtime, id string) (s sandboxRecord, exists bool) {
	t.Helper()
	exists, err := readRecord(r.path(sandboxesDir), id+".json", &s)
	must(t, err)
	return s, exists
}

// A pod that fills the disk can be stopped and removed, which makes room. How its containers ended
// is known, and stays known after a crash of the agent.
func TestFullDiskKeepsNoPod(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		root := smallDisk(t)
		r := openRuntime(t, root, supervisor)
		polite := runContainer(t, r, shell("trap 'exit 7' TERM; echo up; while :; do sleep 1000 & wait $!; done"))
		waitLine(t, r, polite, "up")
		sandbox := info(t, r, polite).SandboxID
		stubborn, err := r.CreateContainer(t.Context(), sandbox, shell("sleep 1000", func(c *runtimeapi.ContainerConfig) {
			c.Metadata.Name, c.LogPath = "stubborn", "stubborn.log"
		}), nil)
		must(t, err)
		must(t, r.StartContainer(t.Context(), stubborn))
		p := r.containers[stubborn].run.process.Identity()
		fill(t, root)

		must(t, r.StopContainer(t.Context(), polite, 3600))
		must(t, r.StopPodSandbox(t.Context(), sandbox))
		if !gone(p) {
			t.Error("a container of a stopped sandbox runs")
		}
		response, err := r.PodSandboxStatus(t.Context(), sandbox, false)
		must(t, err)
		if got := response.GetStatus().GetState(); got != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
			t.Errorf("sandbox state %v", got)
		}
		if _, err := r.CreateContainer(t.Context(), sandbox, shell("true"), nil); err == nil {
			t.Error("a container was created in a stopped sandbox")
		}
		want := map[string]int32{polite: 7, stubborn: 137}
		for again := range 2 {
			for id, code := range want {
				if s := status(t, r, id); s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || s.GetExitCode() != code {
					t.Errorf("agent %d: %v, exit code %d (%s: %s), want %d", again, s.GetState(), s.GetExitCode(), s.GetReason(), s.GetMessage(), code)
				}
			}
			must(t, r.Close(t.Context()))
			r = openRuntime(t, root, supervisor)
		}
		must(t, r.StopPodSandbox(t.Context(), sandbox))
		must(t, r.RemoveContainer(t.Context(), polite))
		must(t, r.RemovePodSandbox(t.Context(), sandbox))
		if _, exists := recorded(t, r, sandbox); exists {
			t.Error("the record of a removed sandbox stays")
		}
		for _, dir := range []string{sandboxesDir, containersDir} {
			if left, err := os.ReadDir(r.path(dir)); err != nil || len(left) > 0 {
				t.Errorf("left in %s: %v, %v", dir, left, err)
			}
		}
	})
}

// A container that ends by itself, while the disk is full and no agent runs, is no failure for that.
func TestFullDiskKeepsExitCode(t *testing.T) {
	root, dir := smallDisk(t), t.TempDir()
	supervisor := modes()[0].supervisor
	r := openRuntime(t, root, supervisor)
	id := runContainer(t, r, shell(waitForFile(dir+"/exit", "exit 0")))
	must(t, r.Close(t.Context()))
	fill(t, root)
	touch(t, dir+"/exit")
	waitExitRecord(t, r, id)
	r = openRuntime(t, root, supervisor)
	if s := status(t, r, id); s.GetExitCode() != 0 || s.GetReason() != reasonCompleted {
		t.Errorf("exit code %d (%s: %s), want 0", s.GetExitCode(), s.GetReason(), s.GetMessage())
	}
}

// What a full disk did not take is written once there is room: for all, and not for what was
// removed meanwhile.
func TestUnsavedIsSavedWithRoom(t *testing.T) {
	root := smallDisk(t)
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r, err := New(Options{Root: root, Clock: clock})
	must(t, err)
	defer func() { must(t, r.Close(context.Background())) }()
	var sandboxes, containers []string
	for i := range 20 {
		config := sandboxConfig(t)
		config.Metadata.Uid = fmt.Sprint(i)
		s, err := r.RunPodSandbox(t.Context(), config, "")
		must(t, err)
		c, err := r.CreateContainer(t.Context(), s, shell("true"), nil)
		must(t, err)
		sandboxes, containers = append(sandboxes, s), append(containers, c)
	}
	free := fill(t, root)
	for i, s := range sandboxes {
		if err := r.StartContainer(t.Context(), containers[i]); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("start on a full disk: %v", err)
		}
		must(t, r.StopPodSandbox(t.Context(), s))
	}
	clock.Step(saveAgain)
	if s, _ := recorded(t, r, sandboxes[1]); s.NotReady {
		t.Fatal("recorded on a full disk: the test proves nothing")
	}
	must(t, r.RemovePodSandbox(t.Context(), sandboxes[0])) // which makes some room
	free()
	patience.Until(t, "all is saved", func() bool {
		clock.Step(saveAgain)
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.saving
	})
	for i := range sandboxes {
		s, exists := recorded(t, r, sandboxes[i])
		if exists != (i > 0) || s.NotReady != (i > 0) {
			t.Errorf("sandbox %d: exists %v, not ready %v", i, exists, s.NotReady)
		}
		var exit exitRecord
		if exists, err := readRecord(r.path(containersDir, containers[i]), exitFile, &exit); err != nil || exists != (i > 0) || exists && exit.Code != codeStartError {
			t.Errorf("container %d: exists %v, %+v, %v", i, exists, exit, err)
		}
	}
}

// Close tries once more.
func TestCloseSaves(t *testing.T) {
	root := smallDisk(t)
	r := openRuntime(t, root, Supervisor{})
	sandbox := runSandbox(t, r)
	free := fill(t, root)
	must(t, r.StopPodSandbox(t.Context(), sandbox))
	free()
	must(t, r.Close(t.Context()))
	if s, _ := recorded(t, r, sandbox); !s.NotReady {
		t.Error("the next agent takes a stopped sandbox for a ready one")
	}
}

// An agent starts on a full disk and finds a container whose start its predecessor could not record.
func TestFullDiskAtStart(t *testing.T) {
	root := smallDisk(t)
	r := openRuntime(t, root, Supervisor{})
	id := runContainer(t, r, shell("sleep 1000"))
	pid := info(t, r, id).PID
	must(t, r.Close(t.Context()))
	must(t, os.Remove(r.path(containersDir, id, startedFile)))
	fill(t, root)
	for range 2 {
		r = openRuntime(t, root, Supervisor{})
		if got := info(t, r, id).PID; got != pid {
			t.Errorf("found pid %d, want %d", got, pid)
		}
		must(t, r.Close(t.Context()))
	}
	r = openRuntime(t, root, Supervisor{})
	must(t, r.StopContainer(t.Context(), id, 0))
}

// What a full disk did not take is lost, but no line that is written once there is room.
func TestFullDiskLosesNoLaterLine(t *testing.T) {
	root := smallDisk(t)
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	log, err := crilog.Open(root, "0.log", clock)
	must(t, err)
	defer func() { must(t, log.Close()) }()
	s := log.Stream("stdout")
	long := bytes.Repeat([]byte("x"), 5000)
	_, err = s.Write(append(long, '\n'))
	must(t, err)
	free := fill(t, root)
	for range 2 {
		if _, err := s.Write(append(long, '\n')); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("write on a full disk: %v", err)
		}
	}
	written := func() string {
		data, err := os.ReadFile(filepath.Join(root, "0.log"))
		must(t, err)
		return string(data)
	}
	if strings.HasSuffix(written(), "\n") {
		t.Fatal("no entry was cut off: the test proves nothing")
	}
	free()
	_, err = s.Write([]byte("next\n"))
	must(t, err)
	if lines := strings.Split(written(), "\n"); len(lines) != 4 || !strings.HasSuffix(lines[2], " stdout F next") || len(lines[2]) > 100 {
		t.Errorf("%d lines; the last is %.200q", len(lines)-1, lines[len(lines)-2])
	}
}

// An agent starts on a full disk, and ends that its predecessor did not see wait for room while it still reads the others.
func TestFullDiskAtStartWithManyEnds(t *testing.T) {
	root := smallDisk(t)
	r := openRuntime(t, root, Supervisor{})
	sandbox := runSandbox(t, r)
	const n = 60
	for i := range n {
		id, err := r.CreateContainer(t.Context(), sandbox, shell("true", func(c *runtimeapi.ContainerConfig) { c.Metadata.Name = fmt.Sprint(i) }), nil)
		must(t, err)
		must(t, writeRecord(r.path(containersDir, id), startedFile, startedRecord{Process: osproc.Identity{PID: 1, BootID: "other"}}))
	}
	must(t, r.Close(t.Context()))
	free := fill(t, root)
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	var stepping sync.WaitGroup
	opened := make(chan struct{})
	stepping.Go(func() {
		for {
			select {
			case <-opened:
				return
			default:
				clock.Step(saveAgain)
			}
		}
	})
	r, err := New(Options{Root: root, Clock: clock})
	close(opened)
	stepping.Wait()
	must(t, err)
	r.mu.Lock()
	unsaved := 0
	for _, c := range r.containers {
		if c.unsaved {
			unsaved++
		}
	}
	r.mu.Unlock()
	if unsaved != n {
		t.Errorf("%d ends are unsaved, want %d", unsaved, n)
	}
	free()
	must(t, r.Close(t.Context()))
	for id := range r.containers {
		if ok, err := readRecord(r.path(containersDir, id), exitFile, &exitRecord{}); !ok || err != nil {
			t.Errorf("an end is not recorded: %v", err)
		}
	}
}

// An agent starts on a disk that has become read-only (CK8), with what a crash left on it, and looks after what runs there.
func TestReadOnlyDiskAtStart(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		root := smallDisk(t)
		r := openRuntime(t, root, supervisor)
		id := runContainer(t, r, shell("trap 'exit 7' TERM; echo up; while :; do sleep 1000 & wait $!; done"))
		waitLine(t, r, id, "up")
		pid := info(t, r, id).PID
		must(t, r.Close(t.Context()))
		touch(t, filepath.Join(root, sandboxesDir, "x.json.0"+durable.Suffix))
		readOnly := readOnlyView(t, root)

		for range 2 {
			again, err := New(Options{Root: readOnly, Supervisor: supervisor})
			must(t, err)
			if s := status(t, again, id); s.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || info(t, again, id).PID != pid {
				t.Errorf("%v, pid %d, want %d", s.GetState(), info(t, again, id).PID, pid)
			}
			if _, err := New(Options{Root: readOnly}); err == nil || !strings.Contains(err.Error(), "another runtime") {
				t.Errorf("a second runtime: %v", err)
			}
			must(t, again.Close(t.Context()))
		}
		again, err := New(Options{Root: readOnly, Supervisor: supervisor})
		must(t, err)
		must(t, again.StopContainer(t.Context(), id, 3600))
		if s := status(t, again, id); s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || s.GetExitCode() != 7 {
			t.Errorf("%v, exit code %d (%s: %s), want 7", s.GetState(), s.GetExitCode(), s.GetReason(), s.GetMessage())
		}
		must(t, again.Close(t.Context()))

		// RD1: what others can read cannot be closed to them here.
		must(t, os.Chmod(root, 0o750))
		if _, err := New(Options{Root: readOnly}); !errors.Is(err, unix.EROFS) {
			t.Errorf("a folder that is open to others: %v", err)
		}
	})
}

// readOnlyView returns another path to a folder, on which it cannot be written to.
func readOnlyView(t *testing.T, dir string) (view string) {
	t.Helper()
	view = t.TempDir()
	must(t, unix.Mount(dir, view, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(view, unix.MNT_DETACH)) })
	must(t, unix.Mount("", view, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return view
}
