package cri_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/cri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a CRI endpoint whose answers a test sets. What is not set is not
// implemented, as on an old runtime.
type server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	// unary answers all unary calls except Version, by the last part of their full
	// method name.
	unary func(ctx context.Context, method string, request any) (any, error)

	streamContainers func(grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error
	events           func(grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error

	mu    sync.Mutex
	calls []string
}

func (s *server) StreamContainers(r *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	s.record("StreamContainers")
	if s.streamContainers == nil {
		return s.UnimplementedRuntimeServiceServer.StreamContainers(r, stream)
	}
	return s.streamContainers(stream)
}

func (s *server) GetContainerEvents(r *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if s.events == nil {
		return s.UnimplementedRuntimeServiceServer.GetContainerEvents(r, stream)
	}
	return s.events(stream)
}

func (s *server) record(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, method)
}

// count returns how often method was called.
func (s *server) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == method {
			n++
		}
	}
	return n
}

func (s *server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	method := filepath.Base(info.FullMethod)
	s.record(method)
	if method == "Version" {
		return &runtimeapi.VersionResponse{
			Version: "0.1.0", RuntimeName: "testruntime", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1",
		}, nil
	}
	if s.unary == nil {
		return nil, status.Error(codes.Unimplemented, "not set by the test")
	}
	return s.unary(ctx, method, request)
}

// serve serves s on the socket until stop is called or the test ends.
func serve(t testing.TB, socket string, s *server) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.UnaryInterceptor(s.intercept), grpc.MaxRecvMsgSize(16<<20), grpc.MaxSendMsgSize(64<<20))
	runtimeapi.RegisterRuntimeServiceServer(g, s)
	runtimeapi.RegisterImageServiceServer(g, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l)
	}()
	stop = sync.OnceFunc(func() {
		g.Stop()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// newSocket returns a socket path short enough for any TMPDIR.
func newSocket(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return filepath.Join(folder, "s")
}

// connect serves s and returns a client of it.
func connect(t testing.TB, s *server, options cri.Options) *cri.Client {
	t.Helper()
	socket := newSocket(t)
	serve(t, socket, s)
	return dial(t, "unix://"+socket, options)
}

func dial(t testing.TB, endpoint string, options cri.Options) *cri.Client {
	t.Helper()
	c, err := cri.Dial(t.Context(), endpoint, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
