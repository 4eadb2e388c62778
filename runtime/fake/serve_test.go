package fake_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// served is a fake behind a unix socket.
type served struct {
	*fake.Runtime
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	stop    func() error
}

func serve(t *testing.T, options fake.Options) *served {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	f := fake.New(options)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ctx, l) }()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	s := &served{
		Runtime: f,
		runtime: runtimeapi.NewRuntimeServiceClient(conn),
		images:  runtimeapi.NewImageServiceClient(conn),
		stop: func() error {
			stopped = true
			cancel()
			return <-ended
		},
	}
	t.Cleanup(func() {
		_ = conn.Close()
		if !stopped {
			if err := s.stop(); err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
	})
	return s
}

// The whole of a pod's life over the wire: what goes in comes out.
func TestServedFakeAnswersLikeTheFake(t *testing.T) {
	s := serve(t, fake.Options{
		Images: []fake.Image{{Ref: image}},
		Script: func(fake.Launch) fake.Script {
			return fake.Script{Exec: func(e fake.Exec) fake.ExecResult {
				return fake.ExecResult{Stdout: e.Cmd[0], Stderr: "e", Code: len(e.Cmd)}
			}}
		},
	})
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	version, err := s.runtime.Version(ctx, &runtimeapi.VersionRequest{Version: "0.1.0"})
	must(err)
	if version.GetRuntimeName() != "fake" || version.GetRuntimeApiVersion() != "v1" {
		t.Errorf("version %v", version)
	}
	sandbox, err := s.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandboxConfig(0)})
	must(err)
	created, err := s.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox.GetPodSandboxId(), Config: containerConfig("app", 0), SandboxConfig: sandboxConfig(0),
	})
	must(err)
	id := created.GetContainerId()
	_, err = s.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	must(err)
	exec, err := s.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"a", "b", "c"}})
	must(err)
	if string(exec.GetStdout()) != "a" || string(exec.GetStderr()) != "e" || exec.GetExitCode() != 3 {
		t.Errorf("exec %v", exec)
	}
	_, err = s.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 30})
	must(err)
	st, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	must(err)
	if st.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("status %v", st)
	}
	images, err := s.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	must(err)
	if len(images.GetImages()) != 1 {
		t.Errorf("images %v", images)
	}
}

// Error classes travel as codes.
func TestServeErrors(t *testing.T) {
	s := serve(t, fake.Options{})
	ctx := t.Context()
	want := func(what string, err error, code codes.Code) {
		t.Helper()
		if got := status.Code(err); got != code {
			t.Errorf("%s: %v, want code %v", what, err, code)
		}
	}
	_, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: "nobody"})
	want("unknown container", err, codes.NotFound)
	_, err = s.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{})
	want("empty config", err, codes.InvalidArgument)
	for _, code := range []codes.Code{codes.OK, codes.AlreadyExists} {
		_, err = s.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandboxConfig(0)})
		want("sandbox", err, code)
	}
	_, err = s.runtime.Attach(ctx, &runtimeapi.AttachRequest{})
	want("a call the fake does not have", err, codes.Unimplemented)
	s.SetDown(true)
	_, err = s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	want("down", err, codes.Unavailable)
}

// Events over the wire; the stream is up when its headers are there.
func TestServeEvents(t *testing.T) {
	s := serve(t, fake.Options{})
	stream, err := s.runtime.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	sandbox, err := s.RunPodSandbox(t.Context(), sandboxConfig(0), "")
	if err != nil {
		t.Fatal(err)
	}
	event, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if event.GetContainerId() != sandbox || event.GetPodSandboxStatus().GetMetadata().GetUid() != string(uid) {
		t.Errorf("event %v", event)
	}
	s.SetDown(true)
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
}

// Serve returns when the calls in flight have ended, and it ends them.
func TestServeShutdown(t *testing.T) {
	s := serve(t, fake.Options{})
	arrived := make(chan struct{})
	s.Inject(fake.Fault{
		Match:  fake.Match{Method: fake.Version, Func: func(fake.Call) bool { close(arrived); return true }},
		Effect: fake.Effect{Hang: true},
	})
	hung := make(chan error, 1)
	go func() {
		_, err := s.runtime.Version(t.Context(), &runtimeapi.VersionRequest{})
		hung <- err
	}()
	<-arrived
	if err := s.stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if now, _ := s.InFlight(); now != 0 {
		t.Errorf("%d calls in flight after Serve returned", now)
	}
	if err := <-hung; err == nil {
		t.Error("a hanging call succeeded")
	}
}

// A listener that breaks is an error.
func TestServeListenerFails(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := fake.New(fake.Options{}).Serve(t.Context(), l); err == nil {
		t.Error("Serve on a closed listener returned nil")
	}
}
