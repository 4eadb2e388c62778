package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// An address is a socket file or a port; what is neither is not guessed at.
func TestParseAddress(t *testing.T) {
	long := "/" + strings.Repeat("x", maxSocketPath-1)
	for text, want := range map[string]address{
		"unix:/run/a.sock":   {socket: "/run/a.sock"},
		"unix:///run/a.sock": {socket: "/run/a.sock"},
		"unix:" + long:       {socket: long},
		"127.0.0.1:10255":    {tcp: "127.0.0.1:10255"},
		"[::1]:0":            {tcp: "[::1]:0"},
		":10255":             {tcp: ":10255"},
	} {
		if got, err := parseAddress(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if _, prefix := (address{tcp: ":10255"}).client(); prefix != "http://127.0.0.1:10255" {
		t.Errorf("all addresses are reached at %s", prefix)
	}
	for text, want := range map[string]string{
		"unix:":              "name a file",
		"unix:" + long + "x": "may have 107 bytes and this one has 108",
		"/run/a.sock":        "want unix:PATH or HOST:PORT",
		"localhost":          "want unix:PATH or HOST:PORT",
		"localhost:":         "want unix:PATH or HOST:PORT",
		"":                   "want unix:PATH or HOST:PORT",
	} {
		if got, err := parseAddress(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", text, got, err, want)
		}
	}
}

// The API is a socket in the agent's folder, unless the command line has something else.
func TestAPIOptions(t *testing.T) {
	root := t.TempDir()
	parseWith := func(args ...string) (options, error) {
		return parse(append([]string{"--manifests", t.TempDir(), "--root", root}, args...))
	}
	o, err := parseWith()
	if err != nil || len(o.api.addresses) != 1 || o.api.addresses[0].socket != filepath.Join(root, "nodeagent.sock") || o.api.overTCP() {
		t.Errorf("the default is %+v, %v", o.api.addresses, err)
	}
	o, err = parseWith("--listen", "unix:/run/a", "--listen", "Node.example:1", "--listen", "0.0.0.0:2", "--listen", "127.0.0.1:3", "--listen-host", "A.example,b.example")
	if err != nil || len(o.api.addresses) != 4 || !o.api.overTCP() || o.api.tokenFile != filepath.Join(root, "nodeagent.token") || !o.api.madeToken {
		t.Errorf("got %+v, %v", o.api, err)
	}
	if got := strings.Join(o.api.names(), " "); got != "a.example b.example node.example 0.0.0.0 127.0.0.1" {
		t.Errorf("names %q", got)
	}
	if got := strings.Join(o.api.exposed(), " "); got != "Node.example:1 0.0.0.0:2" {
		t.Errorf("exposed %q", got)
	}
	for want, args := range map[string][]string{
		"given twice": {"--listen", "unix:/run/a", "--listen", "unix:///run/a"},
		"mean nothing without --listen HOST:PORT or --web": {"--listen-token-file", "/run/token"},
		"want unix:PATH or HOST:PORT":                      {"--listen", "10255"},
	} {
		if _, err := parseWith(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	root = "/" + strings.Repeat("x", maxSocketPath)
	if _, err := parseWith(); err == nil || !strings.Contains(err.Error(), "or a shorter --root") {
		t.Errorf("a root that is too long for a socket: %v", err)
	}
	if _, err := parseWith("--listen", "unix:/run/a"); err != nil {
		t.Errorf("a long root with a socket elsewhere: %v", err)
	}
}
