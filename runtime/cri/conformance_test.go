package cri_test

import (
	"context"
	"net"
	"testing"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/fake/faketest"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// The suite through the adapter, against the fake as a real CRI endpoint: what
// holds in-process must hold over gRPC.
func TestConformanceOverGRPC(t *testing.T) {
	runtimetest.Run(t, func(t *testing.T) runtimetest.Subject {
		c := serveFake(t, fake.New(faketest.Options()))
		return faketest.Subject(c, c)
	})
}

// serveFake returns a client of a fake that is served over gRPC.
func serveFake(t *testing.T, f *fake.Runtime) *cri.Client {
	t.Helper()
	socket := newSocket(t)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- f.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return dial(t, "unix://"+socket, cri.Options{})
}
