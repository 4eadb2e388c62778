package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// apiClient asks a running agent.
type apiClient struct {
	address address
	http    *http.Client
	base    string
	token   string // "" on a socket
}

// openClient finds the agent of a folder, or at an address as --listen has it; on TCP it
// needs the token.
func openClient(root, listen, tokenFile string) (*apiClient, error) {
	c := &apiClient{}
	var err error
	switch {
	case listen != "":
		c.address, err = parseAddress(listen)
	case root != "":
		c.address, err = defaultAddress(root)
	default:
		err = errors.New("--root or --listen is required: there is no home folder to look in")
	}
	if err != nil {
		return nil, err
	}
	c.http, c.base = c.address.client()
	if c.address.socket != "" {
		return c, nil
	}
	if tokenFile == "" {
		tokenFile = defaultTokenFile(root)
	}
	if c.token, err = readToken(tokenFile); err != nil {
		return nil, fmt.Errorf("--listen-token-file: %w", err)
	}
	return c, nil
}

// get asks for a path. The caller closes the body.
func (c *apiClient) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(request)
}
