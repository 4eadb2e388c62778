package fake_test

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
)

// Streams are offered for what runs, at the test's server; without one they are not
// implemented. The fake served over gRPC answers alike.
func TestStreamURLs(t *testing.T) {
	plain := newRig(t, fake.Options{})
	if _, err := plain.Exec(plain.ctx, &runtimeapi.ExecRequest{ContainerId: "x"}); cri.Class(err) != runtime.ErrUnimplemented {
		t.Errorf("without a server: %v", err)
	}
	r := serve(t, fake.Options{StreamURL: "http://127.0.0.1:1", Images: []fake.Image{{Ref: image}}})
	ctx := t.Context()
	sandbox, err := r.RunPodSandbox(ctx, sandboxConfig(0), "")
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: image},
	}, sandboxConfig(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: id}); cri.Class(err) != runtime.ErrFailedPrecondition {
		t.Errorf("exec before the start: %v", err)
	}
	if err := r.StartContainer(ctx, id); err != nil {
		t.Fatal(err)
	}
	exec, err := r.runtime.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: id})
	if err != nil || exec.GetUrl() != "http://127.0.0.1:1/exec/"+id {
		t.Errorf("exec: %v, %v", exec, err)
	}
	attach, err := r.runtime.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: id})
	if err != nil || attach.GetUrl() != "http://127.0.0.1:1/attach/"+id {
		t.Errorf("attach: %v, %v", attach, err)
	}
	forward, err := r.runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandbox})
	if err != nil || forward.GetUrl() != "http://127.0.0.1:1/portforward/"+sandbox {
		t.Errorf("port forward: %v, %v", forward, err)
	}
	if _, err := r.runtime.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: "x"}); cri.Class(err) != runtime.ErrNotFound {
		t.Errorf("attach to an unknown container: %v", err)
	}
	r.SetMemoryUsage(uid, "app", 77)
	stats, err := r.runtime.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{})
	if err != nil || len(stats.GetStats()) != 1 || stats.GetStats()[0].GetLinux().GetContainers()[0].GetMemory().GetUsageBytes().GetValue() != 77 {
		t.Errorf("pod stats: %v, %v", stats, err)
	}
	if err := r.StopPodSandbox(ctx, sandbox); err != nil {
		t.Fatal(err)
	}
	if _, err := r.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandbox}); cri.Class(err) != runtime.ErrFailedPrecondition {
		t.Errorf("port forward to a stopped sandbox: %v", err)
	}
	containers, err := r.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	if err != nil || len(containers.GetStats()) != 0 {
		t.Errorf("stats of what has ended: %v, %v", containers, err)
	}
}
