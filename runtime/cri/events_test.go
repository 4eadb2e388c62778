package cri_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

type eventStream = grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]

// sendEvents sends events with these container IDs, then calls last.
func sendEvents(last func(context.Context) error, ids ...string) func(eventStream) error {
	return func(stream eventStream) error {
		for _, id := range ids {
			if err := stream.Send(&runtimeapi.ContainerEventResponse{ContainerId: id}); err != nil {
				return err
			}
		}
		return last(stream.Context())
	}
}

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestEventsArriveInOrderUntilContextEnds(t *testing.T) {
	c := connect(t, &server{events: sendEvents(untilDone, "a", "b", "c")}, cri.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan *runtimeapi.ContainerEventResponse)
	established := 0
	done := make(chan error, 1)
	go func() {
		done <- c.GetContainerEvents(ctx, events, func(runtimeapi.RuntimeService_GetContainerEventsClient) { established++ })
	}()
	for _, want := range []string{"a", "b", "c"} {
		if got := (<-events).GetContainerId(); got != want {
			t.Errorf("got event of %q, want %q", got, want)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, runtime.ErrCanceled) {
		t.Errorf("got %v, want ErrCanceled", err)
	}
	if established != 1 {
		t.Errorf("callback was called %d times", established)
	}
}

// A reader that went away must not hold the stream (and its goroutine).
func TestUnreadEventsDoNotBlockTheEnd(t *testing.T) {
	c := connect(t, &server{events: sendEvents(untilDone, "a", "b")}, cri.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan *runtimeapi.ContainerEventResponse)
	done := make(chan error, 1)
	go func() { done <- c.GetContainerEvents(ctx, events, nil) }()
	<-events
	cancel()
	if err := <-done; !errors.Is(err, runtime.ErrCanceled) {
		t.Errorf("got %v, want ErrCanceled", err)
	}
}

func TestEventsEnd(t *testing.T) {
	end := func(context.Context) error { return nil }
	for _, tc := range []struct {
		name   string
		server *server
		want   error
	}{
		{"not implemented (containerd 1.6)", &server{}, runtime.ErrUnimplemented},
		{"ended by the runtime", &server{events: sendEvents(end)}, runtime.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := connect(t, tc.server, cri.Options{}).GetContainerEvents(t.Context(), nil, nil)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestEventsWhenRuntimeDies(t *testing.T) {
	socket := newSocket(t)
	stop := serve(t, socket, &server{events: sendEvents(untilDone, "a")})
	c := dial(t, socket, cri.Options{})
	events := make(chan *runtimeapi.ContainerEventResponse)
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- c.GetContainerEvents(ctx, events, nil) }()
	<-events
	stop()
	if err := <-done; !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
