//go:build containerd

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/patience"
)

// Variables of TestIdleCPU. The first is the number of pods and switches it on;
// the others are the CPU seconds per minute a kubelet used for the same job, how
// long to measure, and a file for a CPU profile of the agent.
const (
	idlePods    = "NODEAGENT_IDLE_PODS"
	idleKubelet = "KUBELET_CPU_SECONDS_PER_MINUTE"
	idleSpan    = "NODEAGENT_IDLE_SPAN"
	idleProfile = "NODEAGENT_IDLE_PROFILE"
)

// TestIdleCPU measures what an agent costs while nothing happens in its pods:
// make bench-idle. It is no part of the suite, because the pods of it fill a
// machine.
func TestIdleCPU(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv(idlePods))
	if err != nil || n <= 0 {
		t.Skipf("set %s to a number of pods to measure", idlePods)
	}
	span := time.Minute
	if text := os.Getenv(idleSpan); text != "" {
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", idleSpan, err)
		}
	}
	runtime, manifests, args := onContainerd(t)
	for i := range n {
		name := fmt.Sprintf("idle-%03d", i)
		writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image, "exec sleep 100000",
			"  hostNetwork: true", "  terminationGracePeriodSeconds: 0"))
	}
	if os.Getenv(idleProfile) != "" { // which the program itself cannot write
		t.Setenv(agentProfile, os.Getenv(idleProfile))
		t.Setenv(agentProgram, "")
	}
	a := startAgent(t, append(args, "--max-pods", strconv.Itoa(n))...)
	began := time.Now()
	for running := 0; running < n; {
		if time.Since(began) > patience.Of(15*time.Minute) {
			t.Fatalf("only %d of %d pods run", running, n)
		}
		<-time.After(2 * time.Second)
		running = 0
		for _, p := range a.pods() {
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
	}
	t.Logf("%d pods run after %v", n, time.Since(began).Round(time.Second))
	<-time.After(20 * time.Second) // what starting them led to comes to an end
	a.profileFromNow()
	before, start := cpuSeconds(t, a.cmd.Process.Pid), time.Now()
	<-time.After(span)
	used, minutes := cpuSeconds(t, a.cmd.Process.Pid)-before, time.Since(start).Minutes()
	report := func(who string, perMinute float64) {
		t.Logf("%-10s %6.3f CPU seconds per minute, %5.2f %% of one core", who, perMinute, perMinute/60*100)
	}
	t.Logf("%d idle pods, measured for %v, %s of memory:", n, time.Since(start).Round(time.Second), residentMemory(t, a.cmd.Process.Pid))
	report("nodeagent", used/minutes)
	if text := os.Getenv(idleKubelet); text != "" {
		kubelet, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s: %v", idleKubelet, err)
		}
		report("kubelet", kubelet)
	}
	if os.Getenv(idleProfile) != "" {
		a.terminate()
	}
}

// cpuSeconds is the CPU time of a process, its threads included, in user and
// kernel mode: fields 14 and 15 of its stat file, in hundredths of a second on
// every Linux there is.
func cpuSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The name of the program may hold anything; field 3 follows its last
	// parenthesis.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks float64
	for _, f := range fields[14-3 : 16-3] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return ticks / 100
}

// residentMemory is the memory that a process has in RAM: all of it, what it wrote itself (heap, stacks), and
// pages of its program file, which the kernel can drop.
func residentMemory(t *testing.T, pid int) string {
	t.Helper()
	size := memoryOf(t, pid)
	return fmt.Sprintf("%s (%s of its own, %s of its program)", size["VmRSS"], size["RssAnon"], size["RssFile"])
}

// memoryOf returns the lines of a process's status by name.
func memoryOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found {
			lines[name] = strings.TrimSpace(value)
		}
	}
	return lines
}

// TestContainerdExitLatency: this runtime has no event stream, so an exit is left
// to the relists, one a second. What is logged is the figure; the limit is there
// to catch a lost exit on a loaded machine, not to measure.
func TestContainerdExitLatency(t *testing.T) {
	const rounds = 5
	limit := patience.Of(10 * time.Second)
	runtime, manifests, args := onContainerd(t)
	marks := t.TempDir()
	a := startAgent(t, args...)
	// Every container leaves the moment of its end behind, and those that are
	// restarted that of their second start.
	write := func(name, script, policy string) {
		writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image, strings.ReplaceAll(script, "NAME", "/marks/"+name),
			"    volumeMounts: [{name: marks, mountPath: /marks}]",
			"  restartPolicy: "+policy, "  terminationGracePeriodSeconds: 0",
			"  volumes: [{name: marks, hostPath: {path: "+marks+"}}]"))
	}
	for i := range rounds {
		end := fmt.Sprintf("sleep 1.%d; touch NAME.end; exit ", 2*i)
		write(fmt.Sprintf("again-%d", i), "[ -e NAME.end ] && { touch NAME.start; exec sleep 1000; }; "+end+"1", "Always")
		write(fmt.Sprintf("once-%d", i), end+"0", "Never")
	}
	seen := map[string]time.Time{}
	await(t, "every pod to be restarted or reported", func() error {
		pods := a.pods()
		for i := range rounds {
			name := fmt.Sprintf("once-%d", i)
			if p := pods[name]; p != nil && p.Status.Phase == v1.PodSucceeded && seen[name].IsZero() {
				seen[name] = time.Now()
			}
			name = fmt.Sprintf("again-%d", i)
			if at, err := touched(marks, name+".start"); err == nil {
				seen[name] = at
			}
		}
		if len(seen) < 2*rounds {
			return errors.New("only " + strconv.Itoa(len(seen)))
		}
		return nil
	})
	for name, at := range seen {
		end, err := touched(marks, name+".end")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-7s %v after its exit", name, at.Sub(end).Round(time.Millisecond))
		if at.Sub(end) > limit {
			t.Errorf("%s was restarted or reported %v after its exit, limit %v", name, at.Sub(end), limit)
		}
	}
}

// touched is when a container made a file.
func touched(dir, name string) (time.Time, error) {
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
