package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestContainerOf(t *testing.T) {
	one := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init"}}, Containers: []v1.Container{{Name: "a"}},
	}}
	two := one.DeepCopy()
	two.Spec.Containers = append(two.Spec.Containers, v1.Container{Name: "b"})
	marked := two.DeepCopy()
	marked.Annotations = map[string]string{defaultContainer: "b"}
	for _, c := range []struct {
		pod        *v1.Pod
		name, want string
		code       int
	}{
		{one, "", "a", 0},
		{one, "init", "init", 0},
		{one, "x", "", 404},
		{two, "", "", 400},
		{two, "b", "b", 0},
		{marked, "", "b", 0},
	} {
		got, err := containerOf(c.pod, c.name)
		r, _ := errors.AsType[refusal](err)
		if got != c.want || r.code != c.code {
			t.Errorf("%q of %d containers: %q, %v", c.name, len(c.pod.Spec.Containers), got, err)
		}
	}
}

func TestLogQuery(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	q, err := url.ParseQuery("follow=true&tail=5&limit=7&since=1h&timestamps=1&previous=false")
	if err != nil {
		t.Fatal(err)
	}
	o, err := logQuery(q, now)
	if err != nil || !o.Follow || o.Previous || !o.Timestamps || *o.Tail != 5 || *o.LimitBytes != 7 || !o.Since.Equal(now.Add(-time.Hour)) {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := logQuery(url.Values{"since": {"0s"}}, now); err != nil || !o.Since.IsZero() {
		t.Errorf("no limit: %+v, %v", o, err)
	}
	for _, wrong := range []string{"follow=maybe", "tail=x", "tail=-2", "limit=0", "since=yesterday", "since=-5m"} {
		q, err := url.ParseQuery(wrong)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := logQuery(q, now); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// TestLogsAndEvents: what containers wrote and what happened, of one pod and while it goes on.
func TestLogsAndEvents(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	mark := filepath.Join(t.TempDir(), "go")
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "echo one; echo two; echo three; while [ ! -e "+mark+" ]; do sleep 0.05; done; echo four; exit 3", "  restartPolicy: Never"))
	writeManifest(t, manifests, "crash.yaml", pod("crash", "host", "echo crashing; exit 1"))
	writeManifest(t, manifests, "pair.yaml", pod("pair", "host", "exec sleep 1000", "  - {name: side, image: host, command: [sh, -c, 'echo aside; exec sleep 1000']}"))
	root := t.TempDir()
	a := startAgent(t, "--manifests", manifests, "--root", root, "--drain")
	a.awaitPhase("web", v1.PodRunning)
	a.awaitPhase("pair", v1.PodRunning)
	a.awaitPod("crash", "to crash twice", func(p *v1.Pod) bool { return podStatus(p) == "CrashLoopBackOff" })
	await(t, "the log", func() error {
		if _, out, _ := a.tells("logs", "web"); out != "one\ntwo\nthree\n" {
			return errors.New(out)
		}
		return nil
	})
	for _, c := range []struct {
		line, out, problems string
		code                int
	}{
		{"logs web --tail 1", "three\n", "", 0},
		{"logs web -c main --limit-bytes 5", "one\nt", "", 0},
		{"logs web --since 1ms", "", "", 0},
		{"logs crash -p", "crashing\n", "", 0},
		{"logs pair -c side", "aside\n", "", 0},
		{"logs pair", "", "several containers; say which one: main, side", 2},
		{"logs pair -c none", "", `no container "none"; it has main, side`, 4},
		{"logs web -p", "", "previous", 1},
		{"logs none", "", `there is no pod "none"`, 4},
		{"logs web --since never", "", "neither a duration", 2},
	} {
		code, out, problems := a.tells(strings.Fields(c.line)...)
		if code != c.code || out != c.out || !strings.Contains(problems, c.problems) || c.problems != "" && strings.Count(problems, "\n") != 1 {
			t.Errorf("%s: code %d, %q, %q", c.line, code, out, problems)
		}
	}
	followed := make(chan string, 1)
	go func() {
		_, out, problems := a.tells("logs", "-f", "web")
		followed <- out + problems
	}()
	writeManifest(t, filepath.Dir(mark), "go", "")
	if got := <-followed; got != "one\ntwo\nthree\nfour\n" {
		t.Errorf("followed: %q", got)
	}
	uid := a.awaitPhase("web", v1.PodFailed).UID
	if err := os.RemoveAll(filepath.Join(root, "logs", "default_web-n1_"+string(uid))); err != nil {
		t.Fatal(err)
	}
	if code, out, problems := a.tells("logs", "web"); code != codeFailed || out != "" || !strings.Contains(problems, `container "main" in pod "web-n1" has no log: it was removed with the container, or never written`) {
		t.Errorf("a log that is gone: code %d, %q, %q", code, out, problems)
	}

	code, out, _ := a.tells("events", "web")
	if code != 0 || !strings.Contains(out, "Started") || !strings.Contains(out, "default/web-n1 main") || strings.Contains(out, "crash") {
		t.Errorf("events web: %d\n%s", code, out)
	}
	code, out, _ = a.tells("events", "-o", "json")
	all, err := decode[[]event]([]byte(out))
	if code != 0 || err != nil || len(all) < 6 || !strings.Contains(out, "BackOff") {
		t.Errorf("events: %d, %v\n%s", code, err, out)
	}
	if code, out, problems := a.tells("events", "-n", "other"); code != codeUsage || out != "" || !strings.Contains(problems, "--namespace needs a POD") {
		t.Errorf("events of a namespace: %d %q %q", code, out, problems)
	}
	if code, out, problems := a.tells("events", "-n", "other", "web"); code != codeNotFound || out != "" || !strings.Contains(problems, "but there is default/web-n1") {
		t.Errorf("events of a pod of another namespace: %d %s%s", code, out, problems)
	}
	var watched lockedBuffer
	ended := make(chan int, 1)
	go func() {
		c := newCommandFor(&watched)
		c.SetArgs([]string{"ev", "-w", "pair", "--listen", a.listen})
		ended <- exitCode(c.ExecuteContext(context.WithoutCancel(t.Context())))
	}()
	await(t, "the past events", func() error {
		if !strings.Contains(watched.String(), "Started") {
			return errors.New(watched.String())
		}
		return nil
	})
	remove(t, filepath.Join(manifests, "pair.yaml"))
	await(t, "a new event", func() error {
		if !strings.Contains(watched.String(), "Killing") {
			return errors.New(watched.String())
		}
		return nil
	})
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if code := <-ended; code != codeUnreachable || strings.Count(watched.String(), "MESSAGE") != 1 {
		t.Errorf("the watch ended with %d:\n%s", code, watched.String())
	}
}

// TestLogIsReadWhileItRotates: no line is lost or doubled for a client that follows over a rotation; one that
// never reads harms neither the container nor the agent.
func TestLogIsReadWhileItRotates(t *testing.T) {
	t.Parallel()
	manifests, root := t.TempDir(), t.TempDir()
	writeManifest(t, manifests, "talk.yaml", pod("talk", "host", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.002; done", "  terminationGracePeriodSeconds: 1"))
	a := startAgent(t, "--manifests", manifests, "--root", root, "--drain", "--container-log-max-size", "4Ki")
	a.awaitPhase("talk", v1.PodRunning)
	deaf, err := net.Dial("unix", strings.TrimPrefix(a.listen, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := fmt.Fprint(deaf, "GET /logs/default/talk?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response, err := a.api.open(ctx, http.MethodGet, "/logs/default/talk?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	rotated := func() bool {
		files, err := filepath.Glob(filepath.Join(root, "logs", "*", "main", "0.log.*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files) > 0
	}
	for i, after := 1, 0; after < 500; i++ {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("line %d\n", i) {
			t.Fatalf("line %d: %q, %v", i, line, err)
		}
		if after > 0 || i%100 == 0 && rotated() {
			after++
		}
	}
	cancel()
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := io.Copy(io.Discard, deaf); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Logf("the one that did not read: %v", err)
	}
}

// TestLogThatIsNotWhole: a log of which a part cannot be read is a failure of the command, with the reason, not of the
// agent; a client that takes no trailers can tell it by the missing end.
func TestLogThatIsNotWhole(t *testing.T) {
	t.Parallel()
	manifests, root := t.TempDir(), t.TempDir()
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "echo one; exec sleep 1000", "  terminationGracePeriodSeconds: 1"))
	a := startAgent(t, "--manifests", manifests, "--root", root, "--drain")
	uid := a.awaitPhase("web", v1.PodRunning).UID
	await(t, "the log", func() error {
		if _, out, problems := a.tells("logs", "web"); out != "one\n" {
			return errors.New(out + problems)
		}
		return nil
	})
	broken := filepath.Join(root, "logs", "default_web-n1_"+string(uid), "main", "0.log.20250101-000000.gz")
	if err := os.WriteFile(broken, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, problems := a.tells("logs", "web")
	if code != codeFailed || out != "one\n" || !strings.Contains(problems, "this is not the whole log: ") || !strings.Contains(problems, filepath.Base(broken)) {
		t.Errorf("code %d, %q, %q", code, out, problems)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.api.base+"/logs/default/web", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := a.api.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); string(text) != "one\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without trailers: %q, %v", text, err)
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
