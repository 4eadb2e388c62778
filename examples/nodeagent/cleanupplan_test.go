package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/process"
)

// ask runs "nodeagent cleanup" in this process.
func ask(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = run(append([]string{"cleanup"}, args...), process.Supervisor{}, &out, &problems)
	return code, out.String(), problems.String()
}

// TestCleanupPlan: the plan names what stays and the rule behind it, as a table and
// as JSON (cleanup.md DR3, DR4, OD9, edge case 12): here data of a volume whose owner
// is gone, which is never removed, and a pod's folder that is in use.
func TestCleanupPlan(t *testing.T) {
	t.Parallel()
	root, manifests := t.TempDir(), t.TempDir()
	leftover := filepath.Join(root, "pods", "0badcafe-0000-0000-0000-000000000000", "volumes", "example.com~disk", "data", "precious")
	if err := os.MkdirAll(filepath.Dir(leftover), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(leftover, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	writeManifest(t, manifests, "steady.yaml", pod("steady", "host", "sleep 1000"))
	a := startAgent(t, "--manifests", manifests, "--root", root, "--drain")
	a.awaitPhase("steady", v1.PodRunning)
	var table string
	await(t, "the plan to know of the left-over data and of what runs", func() error {
		code, out, problems := ask(t, "--plan", "--listen", a.listen)
		if code != 0 || problems != "" {
			t.Fatalf("exit code %d: %s", code, problems)
		}
		// A pass may judge by a list that is up to a second old (HK5).
		if table = out; !strings.Contains(table, "OD9") || !strings.Contains(table, "ND2: the pod runs") {
			return errors.New(table)
		}
		return nil
	})
	for _, want := range []string{"remove pod folder", "keep", "left-over data of a volume, which is never removed", "precious"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	code, out, _ := ask(t, "--plan", "-o", "json", "--listen", a.listen)
	var plan struct {
		Actions []struct{ Step, Kind, PodUID, Object, Reason, Forbidden, Age string }
	}
	if err := json.Unmarshal([]byte(out), &plan); code != 0 || err != nil || len(plan.Actions) < 2 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	for _, action := range plan.Actions {
		if action.Step == "" || action.Kind == "" || action.Object == "" || action.Forbidden == "" {
			t.Errorf("%+v", action)
		}
	}
	if _, err := os.Stat(leftover); err != nil {
		t.Error(err)
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if code, _, problems := ask(t, "--plan", "--listen", a.listen); code != 3 || !strings.Contains(problems, "no agent runs here: there is no socket") {
		t.Errorf("without an agent: exit code %d, %s", code, problems)
	}
}

// TestCleanupUsage: it is never guessed what was meant.
func TestCleanupUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"--plan", "-o", "name"}, {"--plan", "now"}, {"--force"}} {
		if code, _, problems := ask(t, args...); code != 2 || !strings.HasPrefix(problems, "nodeagent: ") || strings.Count(problems, "\n") != 1 {
			t.Errorf("%q: exit code %d, %s", args, code, problems)
		}
	}
}

// TestIncompletePlan: a plan that lacks something is shown, and is no success.
func TestIncompletePlan(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(versionHeader, strconv.Itoa(apiVersion))
		w.Header().Set(problemHeader, "the runtime is away")
		fmt.Fprintln(w, `{"actions":[]}`)
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token-of-the-test-0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--plan", "-o", "json", "--listen", strings.TrimPrefix(server.URL, "http://"), "--listen-token-file", token}
	if code, out, problems := ask(t, args...); code != codeFailed || !strings.Contains(out, "actions") || !strings.Contains(problems, "the plan is incomplete: the runtime is away") {
		t.Errorf("exit code %d: %s%s", code, out, problems)
	}
}
