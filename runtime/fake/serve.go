package fake

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// maxMessage is the message limit of CRI runtimes, in bytes.
const maxMessage = 16 << 20

// Serve serves the fake as a CRI endpoint over gRPC on l, until ctx ends. Then
// it closes l, cancels the calls in flight and returns nil when the last has
// ended; any other end is an error. Several endpoints may serve one fake.
//
// Errors carry the code of their class (cri.CodeOf); calls the fake does not
// have are Unimplemented.
func (f *Runtime) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.WaitForHandlers(true),
	)
	runtimeapi.RegisterRuntimeServiceServer(server, &runtimeServer{f: f})
	runtimeapi.RegisterImageServiceServer(server, &imageServer{f: f})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		server.Stop()
		return err
	case <-ctx.Done():
	}
	server.Stop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// answer maps an error onto gRPC.
func answer[T any](response T, err error) (T, error) {
	if err != nil {
		var none T
		return none, status.Error(cri.CodeOf(err), err.Error())
	}
	return response, nil
}

// runtimeServer is the CRI RuntimeService of a fake. It owns the requests: they need not be copied.
type runtimeServer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	f *Runtime
}

func (s *runtimeServer) Version(ctx context.Context, r *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return answer(s.f.Version(ctx, r.GetVersion()))
}

func (s *runtimeServer) Status(ctx context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return answer(s.f.Status(ctx, r.GetVerbose()))
}

func (s *runtimeServer) RunPodSandbox(ctx context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	id, err := s.f.runPodSandbox(ctx, r.GetConfig(), r.GetRuntimeHandler())
	return answer(&runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, err)
}

func (s *runtimeServer) StopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	return answer(&runtimeapi.StopPodSandboxResponse{}, s.f.StopPodSandbox(ctx, r.GetPodSandboxId()))
}

func (s *runtimeServer) RemovePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	return answer(&runtimeapi.RemovePodSandboxResponse{}, s.f.RemovePodSandbox(ctx, r.GetPodSandboxId()))
}

func (s *runtimeServer) PodSandboxStatus(ctx context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	return answer(s.f.PodSandboxStatus(ctx, r.GetPodSandboxId(), r.GetVerbose()))
}

func (s *runtimeServer) ListPodSandbox(ctx context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	list, err := s.f.ListPodSandbox(ctx, r.GetFilter())
	return answer(&runtimeapi.ListPodSandboxResponse{Items: list}, err)
}

func (s *runtimeServer) CreateContainer(ctx context.Context, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	id, err := s.f.createContainerOf(ctx, r)
	return answer(&runtimeapi.CreateContainerResponse{ContainerId: id}, err)
}

func (s *runtimeServer) StartContainer(ctx context.Context, r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	return answer(&runtimeapi.StartContainerResponse{}, s.f.StartContainer(ctx, r.GetContainerId()))
}

func (s *runtimeServer) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	return answer(&runtimeapi.StopContainerResponse{}, s.f.StopContainer(ctx, r.GetContainerId(), r.GetTimeout()))
}

func (s *runtimeServer) RemoveContainer(ctx context.Context, r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	return answer(&runtimeapi.RemoveContainerResponse{}, s.f.RemoveContainer(ctx, r.GetContainerId()))
}

func (s *runtimeServer) ContainerStatus(ctx context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return answer(s.f.ContainerStatus(ctx, r.GetContainerId(), r.GetVerbose()))
}

func (s *runtimeServer) ListContainers(ctx context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	list, err := s.f.ListContainers(ctx, r.GetFilter())
	return answer(&runtimeapi.ListContainersResponse{Containers: list}, err)
}

// ExecSync: over gRPC an exit code is part of the answer, not an error.
func (s *runtimeServer) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	stdout, stderr, err := s.f.ExecSync(ctx, r.GetContainerId(), r.GetCmd(), timing.Seconds(r.GetTimeout()))
	response := &runtimeapi.ExecSyncResponse{Stdout: stdout, Stderr: stderr}
	if exit := (*runtime.ExitError)(nil); errors.As(err, &exit) {
		response.ExitCode, err = int32(exit.Code), nil
	}
	return answer(response, err)
}

func (s *runtimeServer) ReopenContainerLog(ctx context.Context, r *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	return answer(&runtimeapi.ReopenContainerLogResponse{}, s.f.ReopenContainerLog(ctx, r.GetContainerId()))
}

func (s *runtimeServer) UpdateContainerResources(ctx context.Context, r *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	resources := &runtimeapi.ContainerResources{Linux: r.GetLinux(), Windows: r.GetWindows()}
	return answer(&runtimeapi.UpdateContainerResourcesResponse{}, s.f.UpdateContainerResources(ctx, r.GetContainerId(), resources))
}

func (s *runtimeServer) UpdatePodSandboxResources(ctx context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return answer(s.f.UpdatePodSandboxResources(ctx, r))
}

func (s *runtimeServer) ContainerStats(ctx context.Context, r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	stats, err := s.f.ContainerStats(ctx, r.GetContainerId())
	return answer(&runtimeapi.ContainerStatsResponse{Stats: stats}, err)
}

func (s *runtimeServer) ListContainerStats(ctx context.Context, r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	stats, err := s.f.ListContainerStats(ctx, r.GetFilter())
	return answer(&runtimeapi.ListContainerStatsResponse{Stats: stats}, err)
}

func (s *runtimeServer) ListPodSandboxStats(ctx context.Context, r *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	stats, err := s.f.ListPodSandboxStats(ctx, r.GetFilter())
	return answer(&runtimeapi.ListPodSandboxStatsResponse{Stats: stats}, err)
}

func (s *runtimeServer) Exec(ctx context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return answer(s.f.Exec(ctx, r))
}

func (s *runtimeServer) Attach(ctx context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return answer(s.f.Attach(ctx, r))
}

func (s *runtimeServer) PortForward(ctx context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return answer(s.f.PortForward(ctx, r))
}

// GetContainerEvents runs the stream in a goroutine and sends what it delivers.
// It returns when that goroutine has ended.
func (s *runtimeServer) GetContainerEvents(_ *runtimeapi.GetEventsRequest, server grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	ctx, cancel := context.WithCancel(server.Context())
	defer cancel()
	events := make(chan *runtimeapi.ContainerEventResponse)
	ended := make(chan error, 1)
	go func() {
		// Headers tell the client that the stream is up before an event comes.
		ended <- s.f.GetContainerEvents(ctx, events, func(runtimeapi.RuntimeService_GetContainerEventsClient) {
			_ = server.SendHeader(nil)
		})
	}()
	for {
		select {
		case err := <-ended:
			_, err = answer(struct{}{}, err)
			return err
		case event := <-events:
			if err := server.Send(event); err != nil {
				cancel()
				<-ended
				return err
			}
		}
	}
}

// imageServer is the CRI ImageService of a fake.
type imageServer struct {
	runtimeapi.UnimplementedImageServiceServer
	f *Runtime
}

func (s *imageServer) ListImages(ctx context.Context, r *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	list, err := s.f.ListImages(ctx, r.GetFilter())
	return answer(&runtimeapi.ListImagesResponse{Images: list}, err)
}

func (s *imageServer) ImageStatus(ctx context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	return answer(s.f.ImageStatus(ctx, r.GetImage(), r.GetVerbose()))
}

func (s *imageServer) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	ref, err := s.f.PullImage(ctx, r.GetImage(), r.GetAuth(), r.GetSandboxConfig())
	return answer(&runtimeapi.PullImageResponse{ImageRef: ref}, err)
}

func (s *imageServer) RemoveImage(ctx context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return answer(&runtimeapi.RemoveImageResponse{}, s.f.RemoveImage(ctx, r.GetImage()))
}
