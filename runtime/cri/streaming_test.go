package cri_test

import (
	"context"
	"errors"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/cri"
)

// The requests arrive unchanged and the URL comes back; an answer without a URL is an
// error that names the call (spec/runtime.md 27.1).
func TestStreamURLs(t *testing.T) {
	url := "http://127.0.0.1:1/x"
	var got any
	c := unconnected(t, cri.Options{}, func(_ context.Context, _ string, request, reply any) error {
		got = request
		switch r := reply.(type) {
		case *runtimeapi.ExecResponse:
			r.Url = url
		case *runtimeapi.AttachResponse:
			r.Url = url
		case *runtimeapi.PortForwardResponse:
			r.Url = url
		}
		return nil
	})
	exec := &runtimeapi.ExecRequest{ContainerId: "c", Cmd: []string{"ls"}, Tty: true}
	attach := &runtimeapi.AttachRequest{ContainerId: "c", Stdin: true}
	forward := &runtimeapi.PortForwardRequest{PodSandboxId: "s", Port: []int32{80}}
	calls := []struct {
		request any
		call    func() (interface{ GetUrl() string }, error)
	}{
		{exec, func() (interface{ GetUrl() string }, error) { return c.Exec(t.Context(), exec) }},
		{attach, func() (interface{ GetUrl() string }, error) { return c.Attach(t.Context(), attach) }},
		{forward, func() (interface{ GetUrl() string }, error) { return c.PortForward(t.Context(), forward) }},
	}
	for _, tc := range calls {
		response, err := tc.call()
		if err != nil || response.GetUrl() != url || got != tc.request {
			t.Errorf("%T: %v, %v; sent %v", tc.request, response, err, got)
		}
	}
	url = ""
	for _, tc := range calls {
		_, err := tc.call()
		if failure := (*cri.Error)(nil); !errors.As(err, &failure) || cri.Class(err) != nil {
			t.Errorf("%T without URL: %v", tc.request, err)
		}
	}
}

// Lists of stats come back as the runtime has them.
func TestStatsLists(t *testing.T) {
	c := unconnected(t, cri.Options{}, func(_ context.Context, _ string, request, reply any) error {
		switch r := reply.(type) {
		case *runtimeapi.ListContainerStatsResponse:
			r.Stats = []*runtimeapi.ContainerStats{{Attributes: &runtimeapi.ContainerAttributes{
				Id: request.(*runtimeapi.ListContainerStatsRequest).GetFilter().GetId(),
			}}}
		case *runtimeapi.ListPodSandboxStatsResponse:
			r.Stats = []*runtimeapi.PodSandboxStats{{Attributes: &runtimeapi.PodSandboxAttributes{
				Id: request.(*runtimeapi.ListPodSandboxStatsRequest).GetFilter().GetId(),
			}}}
		}
		return nil
	})
	containers, err := c.ListContainerStats(t.Context(), &runtimeapi.ContainerStatsFilter{Id: "c"})
	if err != nil || len(containers) != 1 || containers[0].GetAttributes().GetId() != "c" {
		t.Errorf("%v, %v", containers, err)
	}
	sandboxes, err := c.ListPodSandboxStats(t.Context(), &runtimeapi.PodSandboxStatsFilter{Id: "s"})
	if err != nil || len(sandboxes) != 1 || sandboxes[0].GetAttributes().GetId() != "s" {
		t.Errorf("%v, %v", sandboxes, err)
	}
}
