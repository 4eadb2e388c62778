package runtimetest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/fake/faketest"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// different is a runtime that uses the freedom of the CRI: it adds labels, answers a repeated
// create with the existing object, insists on the namespaces in the container's own config and
// on the image as the user wrote it, lists another moment of a container's creation than its
// status, shares the objects of its lists, and runs commands in containers that have not been started.
type different struct {
	*fake.Runtime
	listed *sync.Map // the object of each container and state, and of each sandbox and state
}

const ownLabel = "runtime.example.com/added"

func (d different) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	list, err := d.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return "", err
	}
	for _, s := range list {
		if m := config.GetMetadata(); s.GetMetadata().GetUid() == m.GetUid() && s.GetMetadata().GetAttempt() == m.GetAttempt() {
			return s.GetId(), nil
		}
	}
	return d.Runtime.RunPodSandbox(ctx, config, handler)
}

func (d different) CreateContainer(ctx context.Context, id string, config *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	if config.GetLinux().GetSecurityContext().GetNamespaceOptions() == nil {
		return "", status.Error(codes.Unknown, "no namespace options")
	}
	if config.GetImage().GetUserSpecifiedImage() == "" {
		return "", status.Error(codes.Unknown, "no user specified image")
	}
	list, err := d.Runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: id})
	if err != nil {
		return "", err
	}
	for _, c := range list {
		if m := config.GetMetadata(); c.GetMetadata().GetName() == m.GetName() && c.GetMetadata().GetAttempt() == m.GetAttempt() {
			return c.GetId(), nil
		}
	}
	return d.Runtime.CreateContainer(ctx, id, config, sandbox)
}

func (d different) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	r, err := d.Runtime.ContainerStatus(ctx, id, verbose)
	if err == nil {
		r.GetStatus().Labels[ownLabel] = "x"
	}
	return r, err
}

func (d different) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r, err := d.Runtime.PodSandboxStatus(ctx, id, verbose)
	if err == nil {
		r.GetStatus().Labels[ownLabel] = "x"
	}
	return r, err
}

func (d different) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	list, err := d.Runtime.ListContainers(ctx, filter)
	for i, c := range list {
		c = proto.Clone(c).(*runtimeapi.Container)
		c.CreatedAt--
		shared, _ := d.listed.LoadOrStore(c.GetId()+c.GetState().String(), c)
		list[i] = shared.(*runtimeapi.Container)
	}
	return list, err
}

func (d different) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	list, err := d.Runtime.ListPodSandbox(ctx, filter)
	for i, s := range list {
		shared, _ := d.listed.LoadOrStore(s.GetId()+s.GetState().String(), s)
		list[i] = shared.(*runtimeapi.PodSandbox)
	}
	return list, err
}

func (d different) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	if r, err := d.Runtime.ContainerStatus(ctx, id, false); err == nil && r.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_CREATED {
		return nil, nil, nil
	}
	return d.Runtime.ExecSync(ctx, id, cmd, timeout)
}

// patient is a runtime that leaves a create call for a name that is taken without an answer.
type patient struct {
	*fake.Runtime
	mu    sync.Mutex
	names map[string]bool
}

func (p *patient) CreateContainer(ctx context.Context, id string, config *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	name := id + config.GetMetadata().GetName()
	p.mu.Lock()
	taken := p.names[name]
	p.names[name] = true
	p.mu.Unlock()
	if taken {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return p.Runtime.CreateContainer(ctx, id, config, sandbox)
}

func TestTakenNamesMayGoUnanswered(t *testing.T) {
	for _, c := range runtimetest.Cases() {
		if !strings.HasPrefix(c.Name, "concurrent/") {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.Run(t, func(*testing.T) runtimetest.Subject {
					f := fake.New(faketest.Options())
					return faketest.Subject(&patient{Runtime: f, names: map[string]bool{}}, f)
				})
			})
		})
	}
}

// The suite asks for what the CRI promises and for no more.
func TestRuntimesMayDiffer(t *testing.T) {
	for _, c := range runtimetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.Run(t, func(*testing.T) runtimetest.Subject {
					f := fake.New(faketest.Options())
					return faketest.Subject(different{f, &sync.Map{}}, f)
				})
			})
		})
	}
}

// Cases in bubbles of their own, where time begins at the same moment, use pods of their own: a runtime may outlive them.
func TestCasesInBubblesHavePodsOfTheirOwn(t *testing.T) {
	uids := map[string]bool{}
	names := []string{"sandbox/stop and remove are idempotent", "container/removal is idempotent"}
	for _, c := range runtimetest.Cases() {
		if !slices.Contains(names, c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fake.New(faketest.Options())
				c.Run(t, func(*testing.T) runtimetest.Subject { return faketest.Subject(f, f) })
				for _, call := range f.Calls(fake.Match{Method: fake.RunPodSandbox}) {
					uids[call.Request.(*runtimeapi.RunPodSandboxRequest).GetConfig().GetMetadata().GetUid()] = true
				}
			})
		})
	}
	if len(uids) != len(names) {
		t.Errorf("%d cases use the pods %v", len(names), uids)
	}
}
