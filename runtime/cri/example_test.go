package cri_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// A wrong endpoint is told apart from a runtime that is down.
func ExampleDial() {
	ctx := context.Background()
	for _, endpoint := range []string{"tcp://127.0.0.1:2375", "/no/such/socket"} {
		client, err := cri.Dial(ctx, endpoint, cri.Options{ConnectTimeout: 10 * time.Millisecond})
		if err != nil {
			fmt.Println(err)
			fmt.Println("wrong endpoint:", errors.Is(err, runtime.ErrInvalid))
			continue
		}
		defer func() { _ = client.Close() }()
	}
	// Output:
	// container runtime at "tcp://127.0.0.1:2375": invalid request: scheme "tcp" is not supported; use a unix socket, such as unix:///run/containerd/containerd.sock
	// wrong endpoint: true
	// container runtime at "/no/such/socket": dial unix /no/such/socket: connect: no such file or directory; is the runtime running, and is this its socket?
	// wrong endpoint: false
}
