package cri

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// GetContainerEvents implements EventStreamer. It has no time limit: it
// returns when ctx ends (runtime.ErrCanceled or runtime.ErrDeadline), when the
// runtime does not have the call (runtime.ErrUnimplemented; containerd before
// 1.7) or when the stream breaks or the runtime ends it (runtime.ErrUnavailable).
//
// connectionEstablishedCallback is called when the request is on its way. CRI
// does not announce that the stream is up before the first event, so a runtime without
// the call is noticed only afterwards.
func (c *Client) GetContainerEvents(ctx context.Context, containerEventsCh chan *runtimeapi.ContainerEventResponse, connectionEstablishedCallback func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	const op = "GetContainerEvents"
	// The stream must not outlive this method, whatever ends it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return c.failure(op, err)
	}
	if connectionEstablishedCallback != nil {
		connectionEstablishedCallback(stream)
	}
	for {
		event, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return &Error{Op: op, Endpoint: c.endpoint, Code: codes.Unavailable, Err: errStreamEnded}
		case err != nil:
			return c.failure(op, err)
		}
		select {
		case containerEventsCh <- event:
		case <-ctx.Done():
			return c.failure(op, status.FromContextError(ctx.Err()).Err())
		}
	}
}

var errStreamEnded = errors.New("the runtime ended the event stream")
