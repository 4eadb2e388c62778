package cri_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// hostile answers every call with what it was given.
type hostile struct {
	sandboxes  *runtimeapi.ListPodSandboxResponse
	containers *runtimeapi.ListContainersResponse
	sandbox    *runtimeapi.PodSandboxStatusResponse
	container  *runtimeapi.ContainerStatusResponse
}

func (h *hostile) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{}, nil
}

func (h *hostile) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return h.sandboxes.GetItems(), nil
}

func (h *hostile) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return h.containers.GetContainers(), nil
}

func (h *hostile) PodSandboxStatus(context.Context, string, bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return h.sandbox, nil
}

func (h *hostile) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	return h.container, nil
}

// FuzzView: whatever a runtime answers, the view shows pods of its own, each once and in
// order, or an error (1.3, 1.5-1.9).
func FuzzView(f *testing.F) {
	labels := `"labels":{"io.kubernetes.pod.uid":"u","io.kubernetes.pod.name":"n","io.kubernetes.pod.namespace":"s"}`
	for _, seed := range [][4]string{
		{
			`{"items":[{"id":"s1","metadata":{"attempt":1},` + labels + `},{"id":"s1","metadata":{},` + labels + `}]}`,
			`{"containers":[{"id":"c1","podSandboxId":"gone","metadata":{"name":"../c"},"image":{},` + labels + `}]}`,
			`{"status":{"id":"other","state":"SANDBOX_READY","network":{"ip":"10.0.0.1","additionalIps":[{"ip":"x"}]}}}`,
			`{"status":{"id":"other","state":"CONTAINER_EXITED","exitCode":-1,"startedAt":"-9223372036854775808","finishedAt":"9223372036854775807","annotations":{"io.kubernetes.container.restartCount":"99999999999999999999","io.kubernetes.container.hash":"-1"},"mounts":[{}]}}`,
		},
		{`{"items":[{},{"id":"a"}]}`, `{"containers":[{},{"id":"b","metadata":{}}]}`, `{}`, `{}`},
	} {
		var raw [4][]byte
		for i, m := range []proto.Message{
			&runtimeapi.ListPodSandboxResponse{}, &runtimeapi.ListContainersResponse{}, &runtimeapi.PodSandboxStatusResponse{}, &runtimeapi.ContainerStatusResponse{},
		} {
			if err := protojson.Unmarshal([]byte(seed[i]), m); err != nil {
				f.Fatal(err)
			}
			raw[i], _ = proto.Marshal(m)
		}
		f.Add(raw[0], raw[1], raw[2], raw[3])
	}
	f.Fuzz(func(t *testing.T, sandboxes, containers, sandbox, container []byte) {
		h := &hostile{
			&runtimeapi.ListPodSandboxResponse{}, &runtimeapi.ListContainersResponse{}, &runtimeapi.PodSandboxStatusResponse{}, &runtimeapi.ContainerStatusResponse{},
		}
		if proto.Unmarshal(sandboxes, h.sandboxes) != nil || proto.Unmarshal(containers, h.containers) != nil ||
			proto.Unmarshal(sandbox, h.sandbox) != nil || proto.Unmarshal(container, h.container) != nil {
			t.Skip("no message")
		}
		v := cri.NewView(h, cri.ViewOptions{})
		pods, err := v.ListPods(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, pod := range pods {
			if pod.UID == "" || pod.Name == "" || pod.Namespace == "" || i > 0 && pods[i-1].UID >= pod.UID {
				t.Errorf("pod %d of %d: %+v", i, len(pods), pod)
			}
			checkHostile(t, v, h, pod)
		}
	})
}

// checkHostile reads a pod in full.
func checkHostile(t *testing.T, v *cri.View, h *hostile, pod *runtime.Pod) {
	seen := map[string]bool{}
	for _, s := range pod.Sandboxes {
		if s.ID == "" || seen["s"+s.ID] {
			t.Errorf("sandbox %q, twice: %v", s.ID, seen["s"+s.ID])
		}
		seen["s"+s.ID] = true
	}
	for _, c := range pod.Containers {
		if c.ID.ID == "" || seen["c"+c.ID.ID] {
			t.Errorf("container %q, twice: %v", c.ID.ID, seen["c"+c.ID.ID])
		}
		seen["c"+c.ID.ID] = true
	}
	status, err := v.PodStatus(t.Context(), pod)
	none := len(pod.Sandboxes) > 0 && h.sandbox.GetStatus() == nil || len(pod.Containers) > 0 && h.container.GetStatus() == nil
	if (err != nil) != none {
		t.Fatalf("err %v", err)
	}
	if err != nil {
		return
	}
	if len(status.Sandboxes) != len(pod.Sandboxes) || len(status.Containers) != len(pod.Containers) {
		t.Errorf("%d of %d sandboxes, %d of %d containers", len(status.Sandboxes), len(pod.Sandboxes), len(status.Containers), len(pod.Containers))
	}
	for _, c := range status.Containers {
		if c.RestartCount < 0 || c.State != runtime.Exited && !c.FinishedAt.IsZero() || c.State == runtime.Created && !c.StartedAt.IsZero() {
			t.Errorf("%+v", c)
		}
	}
}
