package toyruntime

import (
	"context"
	"fmt"
	"os"
	"sync"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Runtime is a [cri.RuntimeService] whose containers are processes of the host. It is also the
// store of its only image. Make one with [New]. Its methods are safe for concurrent use.
type Runtime struct {
	hostImage

	mu         sync.Mutex // held only briefly; the longest is the start of a process
	sandboxes  map[string]*runtimeapi.PodSandboxStatus
	containers map[string]*container
}

var (
	_ cri.RuntimeService = (*Runtime)(nil)
	_ cri.ImageService   = (*Runtime)(nil)
)

// container is a container's status, and what the status does not say.
type container struct {
	*runtimeapi.ContainerStatus
	sandbox string
	config  *runtimeapi.ContainerConfig
	process *os.Process   // nil until started
	ended   chan struct{} // closed once the status says EXITED
}

// New returns a runtime without sandboxes.
func New() *Runtime {
	return &Runtime{sandboxes: map[string]*runtimeapi.PodSandboxStatus{}, containers: map[string]*container{}}
}

// Version implements [cri.Reader].
func (r *Runtime) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: cri.APIVersion, RuntimeName: "toy", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

// Status implements [cri.RuntimeService].
func (r *Runtime) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true},
	}}}, nil
}

// ListPodSandbox implements [cri.Reader].
func (r *Runtime) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*runtimeapi.PodSandbox
	for id, s := range r.sandboxes {
		if isOr(f.GetId(), id) && (f.GetState() == nil || f.GetState().GetState() == s.State) && hasAll(s.Labels, f.GetLabelSelector()) {
			found = append(found, proto.CloneOf(&runtimeapi.PodSandbox{
				Id: id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels, Annotations: s.Annotations,
			}))
		}
	}
	return found, ctx.Err()
}

// ListContainers implements [cri.Reader].
func (r *Runtime) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*runtimeapi.Container
	for id, c := range r.containers {
		if isOr(f.GetId(), id) && isOr(f.GetPodSandboxId(), c.sandbox) &&
			(f.GetState() == nil || f.GetState().GetState() == c.State) && hasAll(c.Labels, f.GetLabelSelector()) {
			found = append(found, proto.CloneOf(&runtimeapi.Container{
				Id: id, PodSandboxId: c.sandbox, Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt,
				Image: c.Image, ImageRef: c.ImageRef, ImageId: c.ImageId, Labels: c.Labels, Annotations: c.Annotations,
			}))
		}
	}
	return found, ctx.Err()
}

// isOr reports whether a filter's field is empty or has this value.
func isOr(filter, value string) bool { return filter == "" || filter == value }

// hasAll reports whether labels has all wanted ones.
func hasAll(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if got, ok := labels[name]; !ok || got != value {
			return false
		}
	}
	return true
}

// find returns the object with an ID.
func find[T any](all map[string]*T, kind, id string) (*T, error) {
	if found := all[id]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("%s %s: %w", kind, id, runtime.ErrNotFound)
}

// PodSandboxStatus implements [cri.Reader].
func (r *Runtime) PodSandboxStatus(_ context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := find(r.sandboxes, "sandbox", id)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: proto.CloneOf(s)}, nil
}

// ContainerStatus implements [cri.Reader].
func (r *Runtime) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := find(r.containers, "container", id)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatusResponse{Status: proto.CloneOf(c.ContainerStatus)}, nil
}
