package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The defaults are a careful kubelet's, and each can be turned off.
func TestSafeDefaults(t *testing.T) {
	parseWith := func(args ...string) options {
		t.Helper()
		o, err := parse(append([]string{"--manifests", t.TempDir(), "--root", t.TempDir()}, args...))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := parseWith(); o.maxPods != 110 || !o.seccomp {
		t.Errorf("%d pods, seccomp %v", o.maxPods, o.seccomp)
	}
	if o := parseWith("--max-pods", "0", "--seccomp-default=false"); o.maxPods != 0 || o.seccomp {
		t.Errorf("turned off: %d pods, seccomp %v", o.maxPods, o.seccomp)
	}
	if _, err := parse([]string{"--manifests", t.TempDir(), "--root", t.TempDir(), "--max-pods", "-1"}); err == nil || !strings.Contains(err.Error(), "--max-pods -1") {
		t.Errorf("--max-pods -1: %v", err)
	}
}

// Whoever meets a limit that is on by default reads which flag turns it off.
func TestHints(t *testing.T) {
	for _, c := range []struct{ reason, text, want string }{
		{"EvictionThresholdMet", "Attempting to reclaim memory", "--eviction-hard"},
		{"Evicted", "The node had condition: [DiskPressure].", "--eviction-hard"},
		{"Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 1Mi.", "--eviction-hard"},
		{"Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi.", ""},
		{"OutOfpods", "Node didn't have enough resource: pods", "--max-pods"},
		{"Started", "Started container main", ""},
	} {
		var line bytes.Buffer
		recorder{slog.New(slog.NewTextHandler(&line, nil)), &eventLog{}}.Eventf(&v1.Pod{}, v1.EventTypeWarning, c.reason, "%s", c.text)
		if got := line.String(); strings.Contains(got, " hint=") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.reason, got, c.want)
		}
	}
}

// A pod above --max-pods is refused, and one on a disk that is too full too; both say why.
func TestLimitsAreTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags         []string
		reason, hint  string
		runs, refused int
	}{
		{[]string{"--max-pods", "1"}, "OutOfpods", "--max-pods", 1, 1},
		{[]string{"--eviction-hard", "nodefs.available<100%"}, "Evicted", "--eviction-hard", 0, 2},
	} {
		manifests := t.TempDir()
		a := startAgent(t, append([]string{"--manifests", manifests, "--root", t.TempDir(), "--drain"}, c.flags...)...)
		if c.runs == 0 {
			await(t, "the pressure", func() error {
				if !strings.Contains(a.log(), "EvictionThresholdMet") {
					return errors.New("not yet")
				}
				return nil
			})
		}
		for _, name := range []string{"a", "b"} {
			writeManifest(t, manifests, name+".yaml", pod(name, "host", "exec sleep 1000"))
		}
		await(t, "two verdicts", func() error {
			running, refused := 0, 0
			for _, p := range a.pods() {
				switch {
				case p.Status.Phase == v1.PodRunning:
					running++
				case p.Status.Phase == v1.PodFailed && p.Status.Reason == c.reason:
					refused++
				}
			}
			if running != c.runs || refused != c.refused {
				return errors.New("not yet")
			}
			return nil
		})
		await(t, "the hint", func() error {
			for line := range strings.Lines(a.log()) {
				if strings.Contains(line, "hint=") && strings.Contains(line, c.hint) {
					return nil
				}
			}
			return errors.New("not yet")
		})
		if code := a.terminate(); code != 0 {
			t.Errorf("%q: exit code %d", c.flags, code)
		}
	}
}
