package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A name in a Host header stands for the agent only if it is the agent's own, so that no page
// in a browser can have its name lead here.
func TestAllowedHost(t *testing.T) {
	local := &net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 10255}
	local6 := &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 10255, Zone: "eth0"}
	for _, c := range []struct {
		host  string
		local net.Addr
		want  bool
	}{
		{"127.0.0.1:10255", local, true},
		{"127.9.9.9", local, true},
		{"[::1]:10255", local, true},
		{"[::ffff:127.0.0.1]:1", local, true},
		{"localhost", local, true},
		{"LocalHost.:10255", local, true},
		{"10.1.2.3:10255", local, true},
		{"10.1.2.3:80", local, true},
		{"[fe80::1]:10255", local6, true},
		{"node.example:10255", local, true},
		{"NODE.example", local, true},
		{"10.1.2.4:10255", local, false},
		{"10.1.2.3", nil, false},
		{"evil.example:10255", local, false},
		{"node.example.evil.example", local, false},
		{"localhost.evil.example", local, false},
		{"127.0.0.1.evil.example", local, false},
		{"0x7f.1", local, false},
		{"", local, false},
		{":10255", local, false},
	} {
		if got := allowedHost(c.host, c.local, []string{"node.example"}); got != c.want {
			t.Errorf("Host %q at %v: %v, want %v", c.host, c.local, got, c.want)
		}
	}
}

// Over TCP only those who have the token and call the agent by its name are let through; all
// others learn at most whether it is well.
func TestAccessOverTCP(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := openToken(path, false)
	if err != nil {
		t.Fatal(err)
	}
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	server := httptest.NewServer(access{user: os.Geteuid(), hosts: []string{"node.example"}, token: token, vague: says("vague"), next: says("all")})
	defer server.Close()
	for _, c := range []struct {
		method, path, host, token string
		code                      int
		body                      string
	}{
		{"GET", "/pods", "", "0123456789abcdef", 200, "all"},
		{"GET", "/pods", "node.example", "0123456789abcdef", 200, "all"},
		{"GET", "/pods", "evil.example", "0123456789abcdef", 421, "no name of the agent"},
		{"GET", "/pods", "", "", 401, "send the token"},
		{"GET", "/metrics", "", "", 401, "send the token"},
		{"GET", "/no/such", "", "", 401, "send the token"},
		{"GET", "/pods", "", "0123456789abcdeX", 401, "send the token"},
		{"GET", "/healthz", "", "0123456789abcdef", 200, "all"},
		{"GET", "/healthz", "", "", 200, "vague"},
		{"GET", "/healthz", "", "wrong", 200, "vague"},
		{"GET", "/healthz", "evil.example", "", 421, "no name of the agent"},
		{"POST", "/healthz", "", "", 401, "send the token"},
		{"GET", "/healthz/../pods", "", "", 401, "send the token"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.host != "" {
			request.Host = c.host
		}
		if c.token != "" {
			request.Header.Set("Authorization", "Bearer "+c.token)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != c.code || !strings.Contains(string(body), c.body) {
			t.Errorf("%+v: %d %q, %v", c, response.StatusCode, body, err)
		}
	}
}

// An agent on a socket and on TCP: TCP has the token of the agent's folder, which the next
// agent keeps; neither shows what may be secret in a pod.
func TestLocalAPI(t *testing.T) {
	const secret = "s3cr3t-value"
	root, manifests := t.TempDir(), t.TempDir()
	writeManifest(t, manifests, "web.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {kubectl.kubernetes.io/last-applied-configuration: `+secret+`}}
spec:
  containers:
  - name: main
    image: host
    command: [sh, -c, "exec sleep 1000", `+secret+`]
    args: [--password=`+secret+`]
    env: [{name: PASSWORD, value: `+secret+`}]
`)
	args := []string{"--manifests", manifests, "--root", root, "--drain"}
	socket := "unix:" + filepath.Join(shortDir(t), "s")
	begin := func() (*testAgent, *apiClient) {
		t.Helper()
		a := startAgent(t, append(args, "--listen", socket, "--listen", "127.0.0.1:0")...)
		address := regexp.MustCompile(`http://([0-9.:]+)`).FindStringSubmatch(a.log())
		if address == nil {
			t.Fatalf("no port in the log:\n%s", a.log())
		}
		tcp, err := openClient(root, address[1], "")
		if err != nil {
			t.Fatal(err)
		}
		return a, tcp
	}
	ask := func(c *apiClient, path string) (int, string) {
		t.Helper()
		response, err := c.get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	a, tcp := begin()
	a.awaitPhase("web", v1.PodRunning)
	for _, c := range []*apiClient{a.api, tcp} {
		for _, path := range []string{"/pods", "/explain/default/web-n1", "/problems", "/healthz", "/metrics", "/cleanup/plan"} {
			code, body := ask(c, path)
			if code != 200 || strings.Contains(body, secret) {
				t.Errorf("%s%s: %d %s", c.base, path, code, body)
			}
			var list v1.PodList
			if path == "/pods" && (json.Unmarshal([]byte(body), &list) != nil || list.Items[0].Spec.Containers[0].Env[0].Name != "PASSWORD") {
				t.Errorf("what is no secret is missing: %s", body)
			}
		}
	}
	stranger := *tcp
	stranger.token = ""
	if code, body := ask(&stranger, "/pods"); code != 401 || strings.Contains(body, "web") {
		t.Errorf("without the token: %d %s", code, body)
	}
	if code, body := ask(&stranger, "/healthz"); code != 200 || body != "ok" {
		t.Errorf("health without the token: %d %s", code, body)
	}
	if strings.Contains(a.log(), tcp.token) {
		t.Error("the token is in the log")
	}
	a.kill() // its socket stays
	b, again := begin()
	if again.token != tcp.token {
		t.Error("the next agent has another token")
	}
	if code, _ := ask(b.api, "/pods"); code != 200 {
		t.Errorf("the next agent's socket: %d", code)
	}
	if code := b.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
