package main

import (
	"context"
	"fmt"
	"io"
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
		{"--manifest-url http://u:hunter2@host/a?token=hunter2 --manifest-url http://host/b --manifest-url-header-file " + headers, "", "", "baseline"},
		{"", "--manifests is required, or --manifest-url", "", ""},
		{"--manifests " + dir + " --pod-security strict", `--pod-security "strict": want privileged, baseline or restricted`, "", ""},
		{"--manifest-url http://host/a?x=hunter2 --manifest-url http://host/a?y=hunter2", "--manifest-url http://host/a is given twice", "", ""},
		{"--manifest-url http://host/a --manifest-url-header-file " + open, "may be read by others (mode 0640): chmod 600", "", ""},
		{"--manifest-url http://host/a --manifest-url-header-file " + broken, `line 2 is not "Name: value"`, "", ""},
		{"--manifest-url http://host/a --manifest-url-header-file " + dir + "/none", "no such file", "", ""},
	} {
		o, err := parse(append(strings.Fields(tc.args), "--root", dir), io.Discard)
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
		if o.sources.headers != nil && (o.sources.headers.Get("Authorization") != "Bearer hunter2" || len(o.sources.headers["X-Fleet"]) != 2) {
			t.Errorf("headers %v", o.sources.headers)
		}
	}
}

// TestProcessAsRoot: root has to say that pods run as root on the machine.
func TestProcessAsRoot(t *testing.T) {
	_, closeRuntime, err := openRuntime(context.Background(), options{runtime: "process", root: t.TempDir()}, process.Supervisor{}, logr.Discard())
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
	manifests := t.TempDir()
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("Authorization: Bearer hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--manifests", manifests, "--manifest-url", server.URL + "/pods", "--manifest-url-header-file", headers, "--root", t.TempDir()}
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
	if got := <-served; got != "Bearer hunter2" {
		t.Errorf("the server got %q", got)
	}
	if log := a.log(); strings.Contains(log, "hunter2") || !strings.Contains(log, manifests+" (privileged), "+server.URL+"/pods (baseline)") {
		t.Errorf("the log tells a secret, or does not tell the levels:\n%s", log)
	}
}
