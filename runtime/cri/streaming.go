package cri

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	_ Streamer     = (*Client)(nil)
	_ StatsLister  = (*Client)(nil)
	_ Checkpointer = (*Client)(nil)
)

// errNoURL: the runtime reported that a stream is ready, but not where.
var errNoURL = errors.New("the runtime returned no URL for the stream")

// Exec implements Streamer.
func (c *Client) Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return stream(ctx, c, "Exec", c.runtime.Exec, request)
}

// Attach implements Streamer.
func (c *Client) Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return stream(ctx, c, "Attach", c.runtime.Attach, request)
}

// PortForward implements Streamer.
func (c *Client) PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return stream(ctx, c, "PortForward", c.runtime.PortForward, request)
}

// stream asks for the URL of a stream. An answer without one is an error.
func stream[Request any, Response interface{ GetUrl() string }](
	ctx context.Context, c *Client, op string, f func(context.Context, Request, ...grpc.CallOption) (Response, error), request Request,
) (Response, error) {
	response, err := call(ctx, c, op, c.options.CallTimeout, f, request)
	if err == nil && response.GetUrl() == "" {
		err = c.failure(op, errNoURL)
	}
	if err != nil {
		var none Response
		return none, err
	}
	return response, nil
}

// ListContainerStats implements StatsLister.
func (c *Client) ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	response, err := call(ctx, c, "ListContainerStats", c.options.CallTimeout, c.runtime.ListContainerStats,
		&runtimeapi.ListContainerStatsRequest{Filter: filter})
	return response.GetStats(), err
}

// ListPodSandboxStats implements StatsLister.
func (c *Client) ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	response, err := call(ctx, c, "ListPodSandboxStats", c.options.CallTimeout, c.runtime.ListPodSandboxStats,
		&runtimeapi.ListPodSandboxStatsRequest{Filter: filter})
	return response.GetStats(), err
}

// CheckpointContainer implements Checkpointer. Its limit is the ordinary one plus the
// request's time-out, which is in seconds.
func (c *Client) CheckpointContainer(ctx context.Context, request *runtimeapi.CheckpointContainerRequest) error {
	_, err := call(ctx, c, "CheckpointContainer", after(c.options.CallTimeout, request.GetTimeout()), c.runtime.CheckpointContainer, request)
	return err
}
