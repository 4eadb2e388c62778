package imagegc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestSandboxImageIsKept: containerd 1.6 does not pin the image of its sandboxes and tells its name (cleanup.md ND5).
func TestSandboxImageIsKept(t *testing.T) {
	for config, want := range map[string][]string{
		`{"containerd":{},"sandboxImage":"registry/pause:3.6"}`: {"registry/pause:3.6"},
		`{"sandboxImage":""}`: nil, `{`: nil, ``: nil, `{"sandboxImage":7}`: nil,
	} {
		if diff := cmp.Diff(want, sandboxImages(map[string]string{"config": config})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", config, diff)
		}
	}
	if sandboxImages(nil) != nil {
		t.Error("a name without any information")
	}
	kept, err := SandboxImages(told{}, "base")(t.Context())
	if err != nil || !slices.Equal(kept, []string{"pause", "base"}) {
		t.Errorf("kept %v, %v", kept, err)
	}
	down := errors.New("down")
	if _, err := SandboxImages(told{err: down})(t.Context()); !errors.Is(err, down) {
		t.Errorf("a runtime that is down: %v", err)
	}
}

// told is a runtime that tells where its images are, and of what its sandboxes are made.
type told struct {
	dirs []string
	err  error
}

func (r told) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	out := &runtimeapi.ImageFsInfoResponse{}
	for _, dir := range r.dirs {
		out.ImageFilesystems = append(out.ImageFilesystems, &runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir}})
	}
	return out, r.err
}

func (r told) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Info: map[string]string{"config": `{"sandboxImage":"pause"}`}}, r.err
}

// TestRuntimeDisk: cleanup.md IG12: the usage of the file system that the runtime names, or why it is not known.
func TestRuntimeDisk(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken")
	disk, err := RuntimeDisk(told{dirs: []string{"", dir}})(t.Context())
	if err != nil || disk.Capacity == 0 || disk.Available > disk.Capacity {
		t.Errorf("%+v, %v", disk, err)
	}
	if _, err := RuntimeDisk(told{})(t.Context()); !errors.Is(err, ErrNoImageFs) {
		t.Errorf("none named: %v", err)
	}
	if _, err := RuntimeDisk(told{err: broken})(t.Context()); !errors.Is(err, broken) {
		t.Errorf("no answer: %v", err)
	}
	if _, err := RuntimeDisk(told{dirs: []string{dir + "/none"}})(t.Context()); err == nil || !strings.Contains(err.Error(), "usage of "+dir) {
		t.Errorf("of another machine: %v", err)
	}
}
