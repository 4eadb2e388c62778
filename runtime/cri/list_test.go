package cri_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

type containerStream = grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]

// containers makes n containers of about size bytes each.
func containers(n, size int) []*runtimeapi.Container {
	all := make([]*runtimeapi.Container, n)
	for i := range all {
		all[i] = &runtimeapi.Container{
			Id:          fmt.Sprint(i),
			Annotations: map[string]string{"a": strings.Repeat("x", size)},
		}
	}
	return all
}

// gRPC's own default of 4 MiB holds only a few thousand containers (spec/pleg.md B8).
func TestLargeMessages(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		name string
		mib  int
		want error
	}{
		{"more than 4 MiB", 9, nil},
		{"more than 16 MiB", 17, runtime.ErrExhausted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &server{unary: func(context.Context, string, any) (any, error) {
				return &runtimeapi.ListContainersResponse{Containers: containers(tc.mib, mib)}, nil
			}}
			got, err := connect(t, s, cri.Options{}).ListContainers(t.Context(), nil)
			if cri.Class(err) != tc.want || err == nil && len(got) != tc.mib {
				t.Errorf("got %d containers, %v; want class %v", len(got), err, tc.want)
			}
		})
	}
	t.Run("sent", func(t *testing.T) {
		s := &server{unary: func(_ context.Context, _ string, request any) (any, error) {
			config := request.(*runtimeapi.CreateContainerRequest).GetConfig()
			return &runtimeapi.CreateContainerResponse{ContainerId: fmt.Sprint(len(config.GetAnnotations()["a"]))}, nil
		}}
		id, err := connect(t, s, cri.Options{}).CreateContainer(t.Context(), "s",
			&runtimeapi.ContainerConfig{Annotations: map[string]string{"a": strings.Repeat("x", 6*mib)}}, nil)
		if err != nil || id != fmt.Sprint(6*mib) {
			t.Errorf("got %q, %v", id, err)
		}
	})
}

// Runtimes with streaming lists have no size limit (B8).
func TestStreamedList(t *testing.T) {
	s := &server{streamContainers: func(stream containerStream) error {
		for _, c := range containers(20, 1<<20) {
			if err := stream.Send(&runtimeapi.StreamContainersResponse{Containers: []*runtimeapi.Container{c}}); err != nil {
				return err
			}
		}
		return nil
	}}
	got, err := connect(t, s, cri.Options{}).ListContainers(t.Context(), nil)
	if err != nil || len(got) != 20 || got[19].GetId() != "19" {
		t.Errorf("got %d containers, %v", len(got), err)
	}
	if n := s.count("ListContainers"); n != 0 {
		t.Errorf("the plain call was made %d times", n)
	}
}

// An older runtime is asked for the stream once only.
func TestListFallsBack(t *testing.T) {
	s := &server{unary: func(_ context.Context, method string, _ any) (any, error) {
		switch method {
		case "ListContainers":
			return &runtimeapi.ListContainersResponse{Containers: containers(3, 1)}, nil
		case "ListPodSandbox":
			return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Id: "s"}}}, nil
		case "ListImages":
			return &runtimeapi.ListImagesResponse{Images: []*runtimeapi.Image{{Id: "i"}}}, nil
		default:
			return nil, status.Error(codes.Unimplemented, method)
		}
	}}
	c := connect(t, s, cri.Options{})
	for range 3 {
		if got, err := c.ListContainers(t.Context(), nil); err != nil || len(got) != 3 {
			t.Fatalf("containers: got %d, %v", len(got), err)
		}
		if got, err := c.ListPodSandbox(t.Context(), nil); err != nil || len(got) != 1 {
			t.Fatalf("sandboxes: got %d, %v", len(got), err)
		}
		if got, err := c.ListImages(t.Context(), nil); err != nil || len(got) != 1 {
			t.Fatalf("images: got %d, %v", len(got), err)
		}
	}
	if n := s.count("StreamContainers"); n != 1 {
		t.Errorf("asked for the stream %d times, want 1", n)
	}
}

func TestUnaryLists(t *testing.T) {
	s := &server{
		unary: func(context.Context, string, any) (any, error) {
			return &runtimeapi.ListContainersResponse{Containers: containers(1, 1)}, nil
		},
		streamContainers: func(containerStream) error { return nil },
	}
	got, err := connect(t, s, cri.Options{UnaryLists: true}).ListContainers(t.Context(), nil)
	if err != nil || len(got) != 1 || s.count("StreamContainers") != 0 {
		t.Errorf("got %d, %v after %d streams", len(got), err, s.count("StreamContainers"))
	}
}

// Half a list looks like lost containers, so a broken stream is an error and is
// not repaired by the plain call.
func TestBrokenStreamedList(t *testing.T) {
	s := &server{streamContainers: func(stream containerStream) error {
		if err := stream.Send(&runtimeapi.StreamContainersResponse{Containers: containers(2, 1)}); err != nil {
			return err
		}
		return status.Error(codes.Internal, "broke")
	}}
	got, err := connect(t, s, cri.Options{}).ListContainers(t.Context(), nil)
	var e *cri.Error
	if len(got) != 0 || !errors.As(err, &e) || e.Op != "StreamContainers" || e.Code != codes.Internal {
		t.Errorf("got %d containers, %v", len(got), err)
	}
	if n := s.count("ListContainers"); n != 0 {
		t.Errorf("the plain call was made %d times", n)
	}
}

// containerd answers a filtered list of images with all of them.
func TestImageFilter(t *testing.T) {
	s := &server{unary: func(_ context.Context, method string, request any) (any, error) {
		switch method {
		case "ListImages":
			return &runtimeapi.ListImagesResponse{Images: []*runtimeapi.Image{{Id: "sha256:1"}, {Id: "sha256:2"}}}, nil
		case "ImageStatus":
			if request.(*runtimeapi.ImageStatusRequest).GetImage().GetImage() == "two" {
				return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "sha256:2"}}, nil
			}
			return &runtimeapi.ImageStatusResponse{}, nil
		default:
			return nil, status.Error(codes.Unimplemented, method)
		}
	}}
	c := connect(t, s, cri.Options{})
	for image, want := range map[string]string{"two": "[sha256:2]", "absent": "[]", "": "[sha256:1 sha256:2]"} {
		list, err := c.ListImages(t.Context(), &runtimeapi.ImageFilter{Image: &runtimeapi.ImageSpec{Image: image}})
		ids := make([]string, 0, len(list))
		for _, i := range list {
			ids = append(ids, i.GetId())
		}
		if got := fmt.Sprint(ids); err != nil || got != want {
			t.Errorf("%q: got %s, %v; want %s", image, got, err, want)
		}
	}
}

// TestContainersTooManyForOneMessage is 2.10: containers are then listed one sandbox at a time. If one
// part cannot be listed, the whole list fails; so does a list that was already limited to one sandbox.
func TestContainersTooManyForOneMessage(t *testing.T) {
	const mib = 1 << 20
	broken, asked := "", 0
	s := &server{unary: func(_ context.Context, method string, request any) (any, error) {
		switch r := request.(type) {
		case *runtimeapi.ListPodSandboxRequest:
			return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Id: "a"}, {Id: "b"}}}, nil
		case *runtimeapi.ListContainersRequest:
			asked++
			id := r.GetFilter().GetPodSandboxId()
			if id != "" && r.GetFilter().GetLabelSelector()["k"] != "v" {
				return nil, status.Error(codes.InvalidArgument, "the filter is lost")
			}
			if id == "" {
				return &runtimeapi.ListContainersResponse{Containers: containers(20, mib)}, nil
			}
			if id == broken {
				return nil, status.Error(codes.ResourceExhausted, "too large")
			}
			return &runtimeapi.ListContainersResponse{Containers: containers(10, mib)}, nil
		}
		return nil, status.Error(codes.Unimplemented, method)
	}}
	c, filter := connect(t, s, cri.Options{}), &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"k": "v"}}
	if got, err := c.ListContainers(t.Context(), filter); err != nil || len(got) != 20 {
		t.Errorf("2.10: %d containers, %v", len(got), err)
	}
	broken, asked = "b", 0
	if got, err := c.ListContainers(t.Context(), filter); cri.Class(err) != runtime.ErrExhausted || len(got) > 0 {
		t.Errorf("2.10: a part is missing: %d containers, %v", len(got), err)
	}
	filter.PodSandboxId, asked = "b", 0
	if _, err := c.ListContainers(t.Context(), filter); cri.Class(err) != runtime.ErrExhausted || asked != 1 {
		t.Errorf("2.10: of one sandbox: %v after %d calls", err, asked)
	}
}

// TestOutputOfACommandIsBounded is 23.8: what a container prints for a probe does not use up the agent's
// memory, however many print at once. A hook may print more.
func TestOutputOfACommandIsBounded(t *testing.T) {
	size := 0
	s := &server{unary: func(context.Context, string, any) (any, error) {
		return &runtimeapi.ExecSyncResponse{Stdout: make([]byte, size/2), Stderr: make([]byte, size/2)}, nil
	}}
	c := connect(t, s, cri.Options{})
	for _, tc := range []struct {
		kib     int
		timeout time.Duration
		want    error
	}{
		{1, time.Second, nil},
		{1024, time.Second, nil},
		{1100, time.Second, runtime.ErrExhausted},
		{1100, 0, nil},
		{16 << 10, 0, nil},
		{17 << 10, 0, runtime.ErrExhausted},
	} {
		size = tc.kib << 10
		stdout, stderr, err := c.ExecSync(t.Context(), "c", []string{"x"}, tc.timeout)
		if cri.Class(err) != tc.want || err == nil && len(stdout)+len(stderr) != size {
			t.Errorf("23.8: %d KiB within %v: %d and %d bytes, %v", tc.kib, tc.timeout, len(stdout), len(stderr), err)
		}
	}
}
