package cri_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// The runtime goes away and comes back: calls fail at once in between, and work
// again afterwards on the same client.
func TestRuntimeRestart(t *testing.T) {
	socket := newSocket(t)
	answer := func(context.Context, string, any) (any, error) { return &runtimeapi.StatusResponse{}, nil }
	stop := serve(t, socket, &server{unary: answer})
	c := dial(t, socket, cri.Options{})
	ctx := t.Context()
	for range 3 {
		if _, err := c.Status(ctx, false); err != nil {
			t.Fatal(err)
		}
		stop()
		// The first call may be the one that notices, the second knows.
		for range 2 {
			if _, err := c.Status(ctx, false); !errors.Is(err, runtime.ErrUnavailable) {
				t.Fatalf("runtime down: got %v, want ErrUnavailable", err)
			}
		}
		_, err := c.Status(ctx, false)
		if !errors.Is(err, runtime.ErrNotSent) || cri.MayHaveActed(err) {
			t.Errorf("a call without a connection may have acted: %v", err)
		}
		want := "Status: runtime unavailable at " + socket + ": dial unix " + socket + ": connect: "
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q…", err, want)
		}
		stop = serve(t, socket, &server{unary: answer})
		// The pause before the next attempt is over at some point; until
		// then calls may still fail.
		if err := c.WaitConnected(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Status(ctx, false); err != nil {
		t.Fatal(err)
	}
}

// A call that is under way when the runtime dies does not wait for its limit.
func TestRuntimeDiesDuringCall(t *testing.T) {
	socket := newSocket(t)
	started := make(chan struct{})
	stop := serve(t, socket, &server{unary: func(ctx context.Context, _ string, _ any) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	c := dial(t, socket, cri.Options{})
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- c.StopContainer(ctx, "c", 30) }()
	<-started
	stop()
	if err := <-done; !errors.Is(err, runtime.ErrUnavailable) || !cri.MayHaveActed(err) {
		t.Errorf("got %v, want ErrUnavailable of a call that may have acted", err)
	}
}

func TestClosedClient(t *testing.T) {
	socket := newSocket(t)
	serve(t, socket, &server{})
	c, err := cri.Dial(t.Context(), socket, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Version(t.Context(), cri.APIVersion); !errors.Is(err, runtime.ErrCanceled) {
		t.Errorf("got %v, want ErrCanceled", err)
	}
}
