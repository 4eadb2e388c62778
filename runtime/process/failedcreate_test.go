//go:build linux

package process

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/patience"
)

// runtimeWithIDs returns a runtime on a fake clock, and the IDs that it gives out.
func runtimeWithIDs(t *testing.T) (r *Runtime, clock *clocktesting.FakeClock, ids [2]string) {
	t.Helper()
	var random []byte
	for i := range ids {
		b := bytes.Repeat([]byte{byte(i + 1)}, 32)
		random, ids[i] = append(random, b...), hex.EncodeToString(b)
	}
	clock = clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r, err := New(Options{Root: filepath.Join(t.TempDir(), "root"), Clock: clock, Rand: bytes.NewReader(random)})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close(context.Background())) })
	return r, clock, ids
}

// A sandbox that could not be created is none to the next agent either: beside the one of the next try it would look
// like a second one that is ready. Its record may be in place all the same, if only the folder could not be synced.
func TestFailedSandboxLeavesNoRecord(t *testing.T) {
	r, _, ids := runtimeWithIDs(t)
	config := sandboxConfig(t)
	must(t, os.MkdirAll(config.GetLogDirectory(), 0o700))
	must(t, writeRecord(r.path(sandboxesDir), ids[0]+".json", sandboxRecord{ID: ids[0], BootID: r.bootID}))
	release := useDescriptors(t, 0)
	_, err := r.RunPodSandbox(t.Context(), config, "")
	release()
	if !errors.Is(err, unix.EMFILE) {
		t.Fatalf("run without a descriptor: %v", err)
	}
	if id, err := r.RunPodSandbox(t.Context(), config, ""); err != nil || id != ids[1] {
		t.Errorf("sandbox %q, %v", id, err)
	}
	must(t, r.Close(t.Context()))
	r = openRuntime(t, r.root, Supervisor{})
	if list, err := r.ListPodSandbox(t.Context(), nil); err != nil || len(list) != 1 || list[0].GetId() != ids[1] {
		t.Errorf("sandboxes %v, %v", list, err)
	}
}

// If its record cannot be removed, it is a sandbox that has been stopped, and is recorded as one once the disk permits it.
func TestFailedSandboxWithARecordIsNotReady(t *testing.T) {
	r, clock, ids := runtimeWithIDs(t)
	path := r.path(sandboxesDir, ids[0]+".json")
	must(t, os.MkdirAll(filepath.Join(path, "full"), 0o700)) // neither replaced nor removed
	if id, err := r.RunPodSandbox(t.Context(), sandboxConfig(t), ""); err == nil {
		t.Fatalf("sandbox %s runs without a record", id)
	}
	list, err := r.ListPodSandbox(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].GetId() != ids[0] || list[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Fatalf("sandboxes %v, %v", list, err)
	}
	must(t, os.RemoveAll(path))
	patience.Until(t, "it is recorded", func() bool {
		clock.Step(saveAgain)
		s, exists := recorded(t, r, ids[0])
		return exists && s.NotReady
	})
	must(t, r.RemovePodSandbox(t.Context(), ids[0]))
	if _, exists := recorded(t, r, ids[0]); exists {
		t.Error("the record of a removed sandbox stays")
	}
}

// A container that could not be created is none to the next agent either.
func TestFailedContainerLeavesNoRecord(t *testing.T) {
	r, _, ids := runtimeWithIDs(t)
	sandbox := runSandbox(t, r)
	dir := r.path(containersDir, ids[1])
	must(t, os.Mkdir(dir, 0o700))
	must(t, writeRecord(dir, containerFile, containerRecord{ID: ids[1], SandboxID: sandbox}))
	release := useDescriptors(t, 0)
	_, err := r.CreateContainer(t.Context(), sandbox, shell("true"), nil)
	release()
	if err == nil {
		t.Fatal("created without a descriptor")
	}
	must(t, r.Close(t.Context()))
	if r = openRuntime(t, r.root, Supervisor{}); r.container(ids[1]) != nil {
		t.Error("the next agent shows it")
	}
}
