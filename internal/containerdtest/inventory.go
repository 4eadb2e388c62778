package containerdtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Containers returns the sorted IDs of the sandboxes and containers that the runtime has and that
// were not there when the test began, so other users' pods on the socket are left out.
func (i *Instance) Containers() []string {
	i.tb.Helper()
	return i.since(i.mustList(nil, nil))
}

// Running is like Containers, but only for ready sandboxes and running containers.
func (i *Instance) Running() []string {
	i.tb.Helper()
	return i.since(i.mustList(
		&runtimeapi.PodSandboxFilter{State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}},
		&runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}},
	))
}

// PIDOf returns the process ID of a container's first process, from the runtime's verbose status.
func (i *Instance) PIDOf(container string) int {
	i.tb.Helper()
	var info struct {
		PID int `json:"pid"`
	}
	err := i.client(func(ctx context.Context, c runtimeapi.RuntimeServiceClient) error {
		response, err := c.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: container, Verbose: true})
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(response.GetInfo()["info"]), &info); err != nil || info.PID == 0 {
			return fmt.Errorf("the status has no process ID: %q, %w", response.GetInfo()["info"], err)
		}
		return nil
	})
	if err != nil {
		i.tb.Fatalf("containerdtest: process of container %s: %v", container, err)
	}
	return info.PID
}

// NeedPrivate skips the test on a runtime that others may use. what says what the test does to the
// runtime, such as "kills the runtime".
func (i *Instance) NeedPrivate(tb testing.TB, what string) {
	tb.Helper()
	if !i.Private {
		tb.Skipf("this test %s, and %s=%s may have other users", what, EndpointVariable, i.Endpoint)
	}
}

// NeedPrivate skips a test before it starts a runtime; [Instance.NeedPrivate] does so afterwards.
func NeedPrivate(tb testing.TB, what string) {
	tb.Helper()
	if endpoint := os.Getenv(EndpointVariable); endpoint != "" {
		(&Instance{Endpoint: endpoint}).NeedPrivate(tb, what)
	}
}

// since removes the IDs that were there when the test began.
func (i *Instance) since(ids []string) []string {
	ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(i.before, id) })
	slices.Sort(ids)
	return ids
}

func (i *Instance) mustList(sandboxes *runtimeapi.PodSandboxFilter, containers *runtimeapi.ContainerFilter) []string {
	i.tb.Helper()
	ids, err := i.list(sandboxes, containers)
	if err != nil {
		i.tb.Fatalf("containerdtest: list what the runtime has: %v", err)
	}
	return ids
}

// list returns the IDs of sandboxes and containers.
func (i *Instance) list(sandboxes *runtimeapi.PodSandboxFilter, containers *runtimeapi.ContainerFilter) (ids []string, err error) {
	err = i.client(func(ctx context.Context, c runtimeapi.RuntimeServiceClient) error {
		pods, err := c.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: sandboxes})
		if err != nil {
			return err
		}
		for _, s := range pods.GetItems() {
			ids = append(ids, s.GetId())
		}
		list, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: containers})
		if err != nil {
			return err
		}
		for _, c := range list.GetContainers() {
			ids = append(ids, c.GetId())
		}
		return nil
	})
	return ids, err
}

// client calls f with a client of the runtime. It also works while the test is being cleaned up.
func (i *Instance) client(f func(context.Context, runtimeapi.RuntimeServiceClient) error) error {
	conn, err := dial(i.Endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(i.tb.Context()), importTimeout)
	defer cancel()
	return f(ctx, runtimeapi.NewRuntimeServiceClient(conn))
}
