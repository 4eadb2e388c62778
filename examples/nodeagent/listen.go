package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
)

// address is where the local API is: a socket file, or host and port.
type address struct {
	socket string // absolute, or
	tcp    string
}

// maxSocketPath is the longest path that fits into the kernel's socket address with its final zero.
const maxSocketPath = 107

// parseAddress parses a value of --listen: unix:PATH or HOST:PORT.
func parseAddress(text string) (address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		path = strings.TrimPrefix(path, "//") // as in unix:///run/x.sock
		if path == "" {
			return address{}, fmt.Errorf("--listen %s: name a file, as in unix:/run/nodeagent.sock", text)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return address{}, fmt.Errorf("--listen %s: %w", text, err)
		}
		return socketAddress(path)
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return address{}, fmt.Errorf("--listen %q: want unix:PATH or HOST:PORT", text)
	}
	if err := checkPort(port); err != nil {
		return address{}, fmt.Errorf("--listen %q: %w", text, err)
	}
	return address{tcp: text}, nil
}

// checkPort refuses what is neither the number nor the name of a port.
func checkPort(port string) error {
	local := net.Resolver{PreferGo: true} // it looks into a file at most
	if _, err := local.LookupPort(context.Background(), "tcp", port); err != nil {
		return fmt.Errorf("there is no port %q", port)
	}
	return nil
}

// socketAddress returns the address of a socket file.
func socketAddress(path string) (address, error) {
	if len(path) > maxSocketPath {
		return address{}, fmt.Errorf("--listen unix:%s: the path of a socket may have %d bytes and this one has %d; choose a shorter one", path, maxSocketPath, len(path))
	}
	return address{socket: path}, nil
}

// defaultAddress returns the address of the socket below the agent's folder.
func defaultAddress(root string) (address, error) {
	return socketAddress(filepath.Join(root, "nodeagent.sock"))
}

func (a address) String() string {
	if a.socket != "" {
		return "unix:" + a.socket
	}
	return a.tcp
}

// listen opens the address.
func (a address) listen(ctx context.Context) (net.Listener, error) {
	if a.socket != "" {
		l, err := listenSocket(ctx, a.socket)
		if err != nil {
			return nil, fmt.Errorf("--listen %s: %w", a, err)
		}
		return l, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.tcp)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--listen %s is in use by another program; choose another address", a)
	}
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return newFewListener(l, maxConnections), nil
}

// client returns an HTTP client for the address, and the prefix of its URLs.
func (a address) client() (*http.Client, string) {
	transport := &http.Transport{DisableKeepAlives: true}
	if a.socket == "" {
		host := a.tcp
		if strings.HasPrefix(host, ":") { // all addresses: the agent knows itself by this one
			host = "127.0.0.1" + host
		}
		return &http.Client{Transport: transport}, "http://" + host
	}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.socket)
	}
	return &http.Client{Transport: transport}, "http://localhost"
}

func closeAll(all []net.Listener) error {
	var problems []error
	for _, l := range all {
		problems = append(problems, l.Close())
	}
	return errors.Join(problems...)
}

// listenNames returns the open addresses for the log.
func listenNames(all []net.Listener) string {
	var names []string
	for _, l := range all {
		if l.Addr().Network() == "unix" {
			names = append(names, "unix:"+l.Addr().String())
		} else {
			names = append(names, "http://"+l.Addr().String())
		}
	}
	return strings.Join(names, ",")
}
