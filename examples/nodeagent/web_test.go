package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// page asks for a page's parts.
type page struct {
	t           *testing.T
	base, token string
}

// pageOf is the page of an agent, by the link that the agent gives.
func pageOf(t *testing.T, a *testAgent) page {
	t.Helper()
	code, link, problems := a.tells("web")
	base, token, found := strings.Cut(strings.TrimSpace(link), "/#token=")
	if code != 0 || !found || len(token) < 32 {
		t.Fatalf("web: %d %q %s", code, link, problems)
	}
	return page{t, base, token}
}

// get is the answer to a path; change may change the request.
func (p page) get(path string, change func(*http.Request)) *http.Response {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.base+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	request.Close = true
	if change != nil {
		change(request)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = response.Body.Close() }) // it may be closed already
	return response
}

// text is the whole answer.
func (p page) text(path string, change func(*http.Request)) (int, string) {
	p.t.Helper()
	response := p.get(path, change)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestPageKeepsOthersOut: data is for those with the page's own token, who call the agent by its name, from no
// other page; what is served has a policy that allows nothing foreign. Nothing can be changed.
func TestPageKeepsOthersOut(t *testing.T) {
	root := t.TempDir()
	a := startAgent(t, "--manifests", t.TempDir(), "--root", root, "--drain", "--web", "127.0.0.1:0")
	p := pageOf(t, a)
	api, err := readToken(defaultTokenFile(root))
	if err != nil || p.token == api {
		t.Fatalf("the page has the token of the local API, %v", err)
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, c := range []struct {
		path   string
		change func(*http.Request)
		code   int
		says   string
	}{
		{"/", header("Authorization", ""), 200, "<!doctype html>"},
		{"/page.js", header("Authorization", ""), 200, "use strict"},
		{"/api/pods/default/none", nil, 404, "there is no pod"},
		{"/api/logs/default/none/main", nil, 404, "there is no pod"},
		{"/api/cleanup?o=json", nil, 200, "actions"},
		{"/api/usage/default/none", nil, 404, "there is no pod"},
		{"/api/nothing", nil, 404, ""},
		{"/web.go", nil, 404, ""},
		{"/pods", nil, 404, ""},
		{"/api/cleanup", header("Authorization", ""), 401, "nodeagent web prints the link"},
		{"/api/cleanup", header("Authorization", "Bearer "+p.token[1:]), 401, "token"},
		{"/api/cleanup", header("Authorization", "Bearer "+api), 401, "token"},
		{"/api/nothing", header("Authorization", ""), 401, "token"},
		{"/", func(r *http.Request) { r.Host = "evil.example" }, 421, "no name of the agent"},
		{"/api/cleanup", func(r *http.Request) { r.Host = "evil.example:80" }, 421, "no name of the agent"},
		{"/api/cleanup", header("Origin", "http://evil.example"), 403, "the agent's own page"},
		{"/api/cleanup", header("Origin", "null"), 403, "the agent's own page"},
		{"/api/cleanup", header("Origin", p.base), 200, ""},
		{"/api/cleanup", func(r *http.Request) { r.Method = http.MethodPost }, 405, ""},
	} {
		response := p.get(c.path, c.change)
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != c.code || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d %q, %v; want %d %q", c.path, response.StatusCode, body, err, c.code, c.says)
		}
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", c.path, response.Header)
		}
	}
	if strings.Contains(a.log(), p.token) {
		t.Error("the log has the token")
	}
	for name, text := range pageTexts(t) {
		if strings.Contains(text, "http://") && name != "timeline.js" && name != "icon.svg" || strings.Contains(text, "https://") || strings.Contains(text, "innerHTML") {
			t.Errorf("%s names something foreign, or makes markup of texts", name)
		}
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

func pageTexts(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := pageFiles.ReadDir("web")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := pageFiles.ReadFile("web/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(text)
	}
	return out
}

// TestPageOff: without --web there is no page, and the command says how to have one.
func TestPageOff(t *testing.T) {
	a := startAgent(t, "--manifests", t.TempDir(), "--root", t.TempDir(), "--drain")
	if code, _, problems := a.tells("web"); code != codeNotFound || !strings.Contains(problems, "start it with --web") {
		t.Errorf("web: %d %s", code, problems)
	}
}

// TestPageShowsPods: the state, one pod's steps and its log, without the values of variables; the next agent's page has the same
// token, and shows what was before it.
func TestPageShowsPods(t *testing.T) {
	const secret = "s3cr3t-value"
	manifests, root := t.TempDir(), t.TempDir()
	writeManifest(t, manifests, "crash.yaml", pod("crash", "host", "echo no database; exit 3", "    env: [{name: PASSWORD, value: "+secret+"}]"))
	writeManifest(t, manifests, "bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: []}\n")
	a := startAgent(t, "--manifests", manifests, "--root", root, "--drain", "--web", "127.0.0.1:0")
	restarted := func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount >= 1 && p.Status.ContainerStatuses[0].State.Waiting != nil
	}
	a.awaitPod("crash", "a restart", restarted)
	p := pageOf(t, a)

	state := p.get("/api/state", nil)
	lines, shown := bufio.NewReader(state.Body), ""
	for !strings.Contains(shown, `"name":"bad.yaml"`) { // which waits for some seconds first
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		shown = line
	}
	var now pageState
	if err := json.Unmarshal([]byte(shown), &now); err != nil || len(now.Pods) != 1 || now.Pods[0].Name != "crash-n1" || now.Pods[0].Tone != "bad" || len(now.Conditions) == 0 {
		t.Errorf("the state is %s, %v", shown, err)
	}

	_, text := p.text("/api/pods/default/crash", nil)
	var detail pageDetail
	if err := json.Unmarshal([]byte(text), &detail); err != nil {
		t.Fatal(err)
	}
	failed, events := 0, 0
	for i := range detail.Steps {
		if s := &detail.Steps[i]; s.isEvent() {
			events++
		} else if s.Lane == "main" && s.State == stepFailed && s.Exit == 3 {
			failed++
		}
	}
	if failed < 2 || events == 0 || len(detail.Containers) != 1 {
		t.Errorf("%d ends and %d events in %s", failed, events, text)
	}
	code, log := p.text("/api/logs/default/crash/main?previous=true", nil)
	if code != 200 || !strings.Contains(log, "no database") {
		t.Errorf("the log: %d %s", code, log)
	}
	if all := shown + text + log; strings.Contains(all, secret) {
		t.Errorf("the page shows a variable: %s", all)
	}

	a.kill()
	b := startAgent(t, "--manifests", manifests, "--root", root, "--drain", "--web", "127.0.0.1:0")
	b.awaitPod("crash", "a restart", restarted)
	next := pageOf(t, b)
	if next.token != p.token {
		t.Error("the next agent has another token")
	}
	await(t, "a run of before", func() error {
		_, text := next.text("/api/pods/default/crash", nil)
		if !strings.Contains(text, `"state": "failed"`) {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
}

// TestPageCrowd: clients that never read, as many as there can be, and those that send nothing harm neither the
// agent nor its local API, nor its end.
func TestPageCrowd(t *testing.T) {
	manifests := t.TempDir()
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000"))
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain", "--web", "127.0.0.1:0")
	a.awaitPhase("web", v1.PodRunning)
	p := pageOf(t, a)
	for range maxPageStreams {
		if response := p.get("/api/state", nil); response.StatusCode != 200 { // the body is never read
			t.Fatalf("status %d", response.StatusCode)
		}
	}
	if code, text := p.text("/api/state", nil); code != 503 || !strings.Contains(text, "close one of them") {
		t.Errorf("one more: %d %s", code, text)
	}
	for range 2 * maxConnections { // more than may be
		conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", strings.TrimPrefix(p.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	if code, out, problems := a.tells("pods"); code != 0 || !strings.Contains(out, "web-n1") {
		t.Errorf("pods: %d %s %s", code, out, problems)
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

// TestWebOptions: HOST is the loopback address if it is left out; an address for others is noticed.
func TestWebOptions(t *testing.T) {
	parseWith := func(args ...string) (options, error) {
		return parse(append([]string{"--manifests", t.TempDir(), "--root", t.TempDir()}, args...))
	}
	if o, err := parseWith(); err != nil || o.web.address != "" {
		t.Errorf("the default is %+v, %v", o.web, err)
	}
	for text, want := range map[string]struct {
		address string
		exposed bool
	}{
		":8080":           {"127.0.0.1:8080", false},
		"localhost:0":     {"localhost:0", false},
		"[::1]:8080":      {"[::1]:8080", false},
		"0.0.0.0:8080":    {"0.0.0.0:8080", true},
		"node.example:80": {"node.example:80", true},
	} {
		if o, err := parseWith("--web", text, "--listen-host", "a.example"); err != nil || o.web.address != want.address || o.web.exposed() != want.exposed {
			t.Errorf("%s: %+v, %v", text, o.web, err)
		}
	}
	for _, text := range []string{"localhost:99999", "localhost:no-such-port"} {
		if _, err := parseWith("--web", text); err == nil || !strings.Contains(err.Error(), "there is no port") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"8080", "unix:/run/a", "localhost:", "localhost"} {
		if _, err := parseWith("--web", text); err == nil || !strings.Contains(err.Error(), "want HOST:PORT") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
