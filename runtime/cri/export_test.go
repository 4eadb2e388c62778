package cri

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// NewUnconnected returns a client whose calls end in intercept; nothing is
// dialled.
func NewUnconnected(options Options, intercept grpc.UnaryClientInterceptor) (*Client, error) {
	options.intercept = intercept
	options.UnaryLists = true
	return newClient("unix:///nowhere", "/nowhere", options.withDefaults())
}

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
