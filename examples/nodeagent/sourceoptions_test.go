package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/process"
	"github.com/podwright/podwright/syncloop/admission"
)

func TestSourceOptions(t *testing.T) {
	dir := t.TempDir()
	headers, open, broken := filepath.Join(dir, "headers"), filepath.Join(dir, "open"), filepath.Join(dir, "broken")
	for path, mode := range map[string]os.FileMode{headers: 0o600, open: 0o640, broken: 0o600} {
		text := "\nAuthorization: Bearer hunter2\nX-Fleet:a\nX-Fleet: b"
		if path == broken {
			text = "X-A: b\nhunter2"
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args, wrong    string
		local, fromURL admission.SecurityLevel
	}{
		{"--manifests " + dir, "", "privileged", "baseline"},
		{"--manifests " + dir + " --pod-security restricted", "", "restricted", "restricted"},
		{"--manifest-url http://u:hunter2@host/a?token=hunter2 --manifest-url http://host/b --manifest-url-header-file http://u:hunter2@host/a?token=hunter2=" + headers, "", "", "baseline"},
		{"--manifest-url http://host/a --manifest-url-header-file " + headers, "", "", "baseline"},
		{"--manifest-url-header-file http://host/a=" + headers + " --manifest-url http://host/a --manifest-url http://host/b --pod-security http://host/b=restricted", "", "", "baseline"},
		{"--manifest-url http://host/a --manifest-url http://host/b --manifest-url-header-file " + headers, "want URL=FILE with a --manifest-url: no other server", "", ""},
		{"--manifest-url http://host/a --manifest-url-header-file http://u:hunter2@other/a?hunter2=" + headers, "--manifest-url-header-file http://other/a: want URL=FILE", "", ""},
		{"--manifest-url http://host/a --manifest-url-header-file " + headers + " --manifest-url-header-file " + headers, "is given twice for http://host/a", "", ""},
		{"--manifest-url http://host/a --pod-security http://host/a=strict", "--pod-security http://host/a=strict: want privileged", "", ""},
		{"--manifests " + dir + " --pod-security baseline --pod-security restricted", "--pod-security is given twice", "", ""},
		{"", "--manifests is required, or --manifest-url", "", ""},
		{"--manifests " + dir + " --pod-security strict", `--pod-security "strict": want privileged, baseline or restricted`, "", ""},
		{"--manifest-url http://host/a?x=hunter2 --manifest-url http://host/a?y=hunter2", "--manifest-url http://host/a is given twice", "", ""},
		{"--manifest-url http://host/a --manifest-url-header-file " + open, "is open to other users (mode 0640); run chmod 600", "", ""},
		{"--manifest-url http://host/a --manifest-url-header-file " + broken, `line 2 is not "Name: value"`, "", ""},
		{"--manifest-url http://host/a --manifest-url-header-file " + dir + "/none", "no such file", "", ""},
	} {
		o, err := parse(append(strings.Fields(tc.args), "--root", dir))
		if (err == nil) != (tc.wrong == "") || err != nil && (!strings.Contains(err.Error(), tc.wrong) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", tc.args, err, tc.wrong)
			continue
		}
		p := o.sources.policies()
		if err == nil && (p[localSource].Security != tc.local || p[""].Security != tc.fromURL || p[localSource].HighestPriority != nil || *p[""].HighestPriority != 1e9 || !p[""].OwnUIDs || p[localSource].OwnUIDs) {
			t.Errorf("%s: policies %+v", tc.args, p)
		}
		if told := o.sources.told(); strings.Contains(told, "hunter2") {
			t.Errorf("%s: tells %s", tc.args, told)
		}
		for _, u := range o.sources.urls {
			if name := urlSource(u); strings.Contains(name, "hunter2") || !strings.HasPrefix(name, "http:host/") {
				t.Errorf("%s is called %s", u, name)
			}
		}
		if err == nil && strings.Contains(tc.args, headers) {
			h, err := o.sources.headersOf(o.sources.urls[0])()
			if err != nil || h.Get("Authorization") != "Bearer hunter2" || len(h["X-Fleet"]) != 2 {
				t.Errorf("headers %v, %v", h, err)
			}
			if len(o.sources.urls) > 1 && o.sources.headersOf(o.sources.urls[1]) != nil {
				t.Error("the headers of one server go to another")
			}
		}
		if level := p["http:host/b"].Security; strings.Contains(tc.args, "b=restricted") && level != "restricted" {
			t.Errorf("%s: the level of one URL is %q", tc.args, level)
		}
	}
}

// TestHeaderFile: what a file of headers may hold. No error says more than its line.
func TestHeaderFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	for text, wrong := range map[string]string{
		"A: b\r\n\r\nX-Long-Name:  two words \r\nEmpty:\n": "",
		"A: b\n\nhunter2":                  `line 3 is not "Name: value"`,
		"A: b\nX y: hunter2":               `line 2 is not "Name: value"`,
		": hunter2":                        `line 1 is not "Name: value"`,
		"Ä: hunter2":                       `line 1 is not "Name: value"`,
		"A: b\nB: hun\rter2":               "line 2 has a control character",
		"A: hunter2\x00":                   "line 1 has a control character",
		"A: hunter2\x7f":                   "line 1 has a control character",
		"A: hunter2\u0085":                 "line 1 has a control character",
		"A: " + strings.Repeat("x", 1<<20): "is larger than 1048576 bytes",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := readHeaders(path)
		switch {
		case wrong == "" && (err != nil || len(h) != 3 || h.Get("X-Long-Name") != "two words"):
			t.Errorf("%q: %v, %v", text, h, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ter2")):
			t.Errorf("%.20q: %v, want %q", text, err, wrong)
		}
	}
}

// TestProcessAsRoot: root has to say that pods run as root on the machine.
func TestProcessAsRoot(t *testing.T) {
	_, closeRuntime, err := openRuntime(context.Background(), options{runtime: "process", root: t.TempDir()}, process.Supervisor{}, nil, logr.Discard())
	if err == nil {
		_ = closeRuntime(context.Background())
	}
	if root := os.Geteuid() == 0; root != strings.Contains(fmt.Sprint(err), "--process-as-root") {
		t.Errorf("as root: %t: %v", root, err)
	}
}

// TestManifestURL: pods of a server run beside those of the folder; one that the level baseline
// forbids, and one that claims to be critical for the node, are Failed with the reason (PS1, PS4).
// A pod of the folder may do both.
func TestManifestURL(t *testing.T) {
	t.Parallel()
	served := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case served <- r.Header.Get("Authorization"):
		default:
		}
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "PodList", "items": [`)
		for i, spec := range []string{"", `"hostPID": true, `, `"priorityClassName": "system-node-critical", `} {
			fmt.Fprintf(w, `%s{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked%d"}, "spec": {%s"containers": [{"name": "main", "image": "host", "command": ["sleep", "1000"]}]}}`,
				strings.Repeat(",", min(i, 1)), i, spec)
		}
		fmt.Fprint(w, "]}")
	}))
	defer server.Close()
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a server gets the headers of another")
		}
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": {"containers": [{"name": "main", "image": "host", "command": ["sleep", "1000"]}]}}`)
	}))
	defer stranger.Close()
	manifests := t.TempDir()
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("Authorization: Bearer hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--manifests", manifests, "--manifest-url", server.URL + "/pods", "--manifest-url-header-file", server.URL + "/pods=" + headers,
		"--manifest-url", stranger.URL, "--pod-security", stranger.URL + "=restricted", "--root", t.TempDir(),
	}
	drainAtEnd(t, args...)
	writeManifest(t, manifests, "own.yaml", pod("own", "host", "sleep 1000", "  hostPID: true", "  priorityClassName: system-node-critical"))
	a := startAgent(t, args...)
	a.awaitPhase("own", v1.PodRunning)
	a.awaitPhase("asked0", v1.PodRunning)
	for name, want := range map[string]string{"asked1": "PodSecurity", "asked2": "SourcePolicy"} {
		if p := a.awaitPhase(name, v1.PodFailed); p.Status.Reason != want {
			t.Errorf("%s: %s, %s", name, p.Status.Reason, p.Status.Message)
		}
	}
	if p := a.awaitPhase("plain", v1.PodFailed); p.Status.Reason != "PodSecurity" || !strings.Contains(p.Status.Message, "restricted") {
		t.Errorf("plain: %s, %s", p.Status.Reason, p.Status.Message)
	}
	if got := <-served; got != "Bearer hunter2" {
		t.Errorf("the server got %q", got)
	}
	if log := a.log(); strings.Contains(log, "hunter2") || !strings.Contains(log, manifests+" (privileged), "+server.URL+"/pods (baseline), "+stranger.URL+" (restricted)") {
		t.Errorf("the log tells a secret, or does not tell the levels:\n%s", log)
	}
}
