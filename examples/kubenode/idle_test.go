//go:build apiserver && containerd

package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/kube/apitest"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata, users: ["system:node:edge-1"]}]
`

const crowd = 100

// idle is how long 100 pods idle while requests are counted.
var idle = flag.Duration("idle", 30*time.Second, "how long 100 pods idle while requests are counted")

// TestContainerdAPIServerIdle (KW5, KW6): 100 pods reach Running with at most 2 writes of
// their status each; when they idle, the node makes at most 6 requests a minute besides
// those of its lease. Watches that begin again count when they end, which is as often.
func TestContainerdAPIServerIdle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, audit := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newClusterWith(t, apitest.Options{Scheduler: true, Controllers: true, Args: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + audit}})
	c.start()
	c.until("Node Ready", 20*time.Second, c.nodeReady)
	c.apply(strings.ReplaceAll(deployment, "replicas: 20", fmt.Sprint("replicas: ", crowd)))
	c.until(fmt.Sprint(crowd, " pods Ready"), 4*time.Minute, c.ready("app=web", crowd))
	// What the start led to comes to an end: 10 s without a request.
	var before map[string]int
	c.until("the node is quiet", time.Minute, func() error {
		last := requests(t, audit)
		c.sleep(10 * time.Second)
		if before = requests(t, audit); idled(last, before) > 0 {
			return fmt.Errorf("from %v to %v", last, before)
		}
		return nil
	})
	t.Logf("up to here: %v", before)
	// A pod whose token the API server refuses for long says so in a write of its own, and so does
	// one whose start takes its time on a busy machine: the bound of two each is for a start without
	// waits, as in virtual time (TestCrowdTakesTwoWritesPerPod).
	if n := before["patch pods/status"]; n > 3*crowd {
		t.Errorf("%d writes of status for %d pods", n, crowd)
	}
	c.sleep(*idle)
	after := requests(t, audit)
	total := idled(before, after)
	t.Logf("idle: %d requests; then: %v", total, after)
	if limit := max(1, 6*int(*idle/time.Minute)); total > limit {
		t.Errorf("%d requests in %s, want at most %d", total, *idle, limit)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.agent.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "Threads") {
			t.Log(strings.TrimSpace(line))
		}
	}
	c.kubectl("delete", "deployment", "web")
	c.until("all are gone", 2*time.Minute, c.ready("app=web", 0))
}

// idled is how many requests came in between, without those of the lease.
func idled(before, after map[string]int) (n int) {
	for call, count := range after {
		if !strings.Contains(call, " leases") {
			n += count - before[call]
		}
	}
	return n
}

// requests counts what the node has asked the API server for, as "verb resource".
func requests(t *testing.T, audit string) map[string]int {
	t.Helper()
	calls, _ := audited(t, audit)
	return calls
}

// audited is requests, and what of it the API server has forbidden and not allowed later.
func audited(t *testing.T, audit string) (calls, forbidden map[string]int) {
	t.Helper()
	file, err := os.Open(audit)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	calls, forbidden = map[string]int{}, map[string]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb           string
			ObjectRef      struct{ Resource, Subresource, Name string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		call := strings.TrimSuffix(event.Verb+" "+event.ObjectRef.Resource+"/"+event.ObjectRef.Subresource, "/")
		calls[call]++
		if call += " " + event.ObjectRef.Name; event.ResponseStatus.Code == http.StatusForbidden {
			forbidden[call]++
		} else {
			delete(forbidden, call)
		}
	}
	return calls, forbidden
}
