package pleg_test

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
)

// oneContainer is the smallest runtime there is to read: one sandbox with one
// container in it.
type oneContainer struct {
	state    runtimeapi.ContainerState
	exitCode int32
}

func labels() map[string]string {
	return map[string]string{
		runtime.LabelPodUID: "0f1e", runtime.LabelPodName: "web", runtime.LabelPodNamespace: "default",
	}
}

func (r *oneContainer) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "one"}, nil
}

func (r *oneContainer) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return []*runtimeapi.PodSandbox{{Id: "sandbox", Labels: labels(), Metadata: &runtimeapi.PodSandboxMetadata{}}}, nil
}

func (r *oneContainer) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return []*runtimeapi.Container{{
		Id: "container", PodSandboxId: "sandbox", State: r.state, Labels: labels(),
		Metadata: &runtimeapi.ContainerMetadata{Name: "nginx"}, Image: &runtimeapi.ImageSpec{},
	}}, nil
}

func (r *oneContainer) PodSandboxStatus(context.Context, string, bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: "sandbox", Metadata: &runtimeapi.PodSandboxMetadata{}, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.7"},
	}}, nil
}

func (r *oneContainer) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: "container", State: r.state, ExitCode: r.exitCode, Metadata: &runtimeapi.ContainerMetadata{Name: "nginx"},
	}}, nil
}

// A generator in manual mode: every relist is a call, nothing happens in between.
// An agent calls Run instead and waits on the subscription's Ready.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // for GetNewerThan
	defer cancel()
	node := &oneContainer{state: runtimeapi.ContainerState_CONTAINER_RUNNING}
	generator, err := pleg.New(node, pleg.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	changes := generator.Subscribe()
	defer changes.Close()

	show := func() {
		if err := generator.Relist(ctx); err != nil {
			fmt.Println(err)
		}
		for _, e := range changes.Take() {
			status, err := generator.Get(e.UID)
			if err != nil {
				fmt.Println(err)
				continue
			}
			c := status.Container("nginx")
			fmt.Printf("%s/%s: %v; %s is %v, exit code %d, pod IPs %v\n", status.Namespace, status.Name, e.Kinds, c.Name, c.State, c.ExitCode, status.IPs)
		}
	}
	show()
	show() // unchanged: two list calls, nothing delivered

	node.state, node.exitCode = runtimeapi.ContainerState_CONTAINER_EXITED, 143
	before := generator.Stamp()
	show()

	status, err := generator.GetNewerThan(ctx, "0f1e", before)
	fmt.Println("newer than before the exit:", status.Stamp > before, err)
	// Output:
	// default/web: Started; nginx is running, exit code 0, pod IPs [10.0.0.7]
	// default/web: Died; nginx is exited, exit code 143, pod IPs [10.0.0.7]
	// newer than before the exit: true <nil>
}
