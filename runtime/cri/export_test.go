package cri

import (
	"context"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/mem"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// NewUnconnected returns a client whose calls end in intercept; nothing is
// dialled.
func NewUnconnected(options Options, intercept grpc.UnaryClientInterceptor) (*Client, error) {
	options.intercept = intercept
	options.UnaryLists = true
	return newClient("unix:///nowhere", "/nowhere", options.withDefaults())
}

// SetStatfs replaces the kernel's statfs. Call it before any other method.
func (c *Client) SetStatfs(f func(path string, out *unix.Statfs_t) error) { c.options.statfs = f }

// WaitConnected asks for a connection and waits for it.
func (c *Client) WaitConnected(ctx context.Context) error {
	for {
		state := c.conn.GetState()
		if state == connectivity.Ready {
			return nil
		}
		c.conn.Connect()
		if !c.conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

// Recalled returns how many sandboxes and containers of the latest lists are known.
func (c *Client) Recalled() (sandboxes, containers int) {
	return c.lists.allSandboxes.size(), c.lists.allContainers.size()
}

func (r *recall[Item, P]) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}

// DecodeContainers decodes the answer to a list of all containers.
func (c *Client) DecodeContainers(answer []byte) ([]*runtimeapi.Container, error) {
	codec, response := c.lists.allContainers.begin(), &runtimeapi.ListContainersResponse{}
	err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(answer)}, response)
	if err == nil {
		codec.end()
	}
	return response.GetContainers(), err
}
