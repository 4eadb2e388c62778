//go:build apiserver && containerd

package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/kube/apitest"
)

var (
	crashes   = flag.Int("crashes", 2, "how often TestContainerdAPIServerCrash kills kubenode")
	crashSeed = flag.Uint64("crash.seed", 1, "what its calls are drawn from")
)

// crashCalls is about how many calls kubenode makes in the life of the two pods.
const crashCalls = 30

// mortalPods are a job that ends with a code, and a pod that runs until it is deleted. Each start is a line.
const mortalPods = `
apiVersion: v1
kind: Pod
metadata: {name: job-LIFE, labels: {life: "LIFE"}}
spec:
  nodeName: NODE
  automountServiceAccountToken: false
  restartPolicy: Never
  containers: [{name: main, image: IMAGE, command: [sh, -c, "echo ran >>/host/job-LIFE; exit 7"], volumeMounts: [{name: host, mountPath: /host}]}]
  volumes: [{name: host, hostPath: {path: HOST, type: Directory}}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-LIFE, labels: {life: "LIFE"}}
spec:
  nodeName: NODE
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 5
  containers: [{name: main, image: IMAGE, command: [sh, -c, "echo ran >>/host/web-LIFE; trap 'exit 3' TERM; sleep 1000 & wait"], volumeMounts: [{name: host, mountPath: /host}]}]
  volumes: [{name: host, hostPath: {path: HOST, type: Directory}}]
`

// TestContainerdAPIServerCrash (KW3): kubenode is killed before, during or after a call to a real API server, drawn at
// random, in the lives of pods, and started again. The job's exit code arrives, no container starts twice or restarts, and what
// is deleted goes.
func TestContainerdAPIServerCrash(t *testing.T) {
	c := newClusterWith(t, apitest.Options{})
	gate, err := apitest.NewGate(c.api, c.api.Node(nodeName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	if err := c.api.Kubeconfig(c.config, gate.Config(c.api.Node(nodeName))); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.until("Node Ready", 20*time.Second, c.nodeReady)
	random := rand.New(rand.NewPCG(*crashSeed, 7))
	kills, differences := map[string]int{}, 0
	for life := range *crashes {
		call, moment := 1+random.IntN(crashCalls), []apitest.Moment{apitest.Unsent, apitest.Unheard, apitest.Heard}[random.IntN(3)]
		where := c.dieOnce(gate, call, moment, fmt.Sprint(life))
		kills[strings.Fields(where)[0]]++
		if found := c.lifeIsOver(fmt.Sprint(life)); found != nil {
			differences += len(found)
			t.Errorf("life %d, killed at call %d (%s): %s", life, call, where, strings.Join(found, "; "))
		}
	}
	if kills["at"] == *crashes {
		t.Error("no kill came at a call")
	}
	t.Logf("-crash.seed=%d, %d lives; kills before, during and after a call, and at rest: %d, %d, %d, %d; differences: %d",
		*crashSeed, *crashes, kills["before"], kills["during"], kills["after"], kills["at"], differences)
}

// dieOnce lives the life of two pods to their deletion while kubenode dies once, and returns where.
func (c *cluster) dieOnce(gate *apitest.Gate, call int, moment apitest.Moment, life string) (where string) {
	c.t.Helper()
	died := make(chan string, 1)
	agent := c.agent.Process
	undo := gate.At(call, moment, func(name string) {
		_ = agent.Signal(syscall.SIGKILL)
		died <- string(moment) + " " + name
	})
	defer undo()
	again := sync.OnceFunc(func() { // a kill that did not come is one at rest
		undo()
		select {
		case where = <-died:
		default:
			where = "at rest"
		}
		c.kill(syscall.SIGKILL)
		c.start()
	})
	soon := func(what string, holds func() error) {
		c.until("life "+life+": "+what, time.Minute, func() error {
			select {
			case where = <-died:
				died <- where
				again()
			default:
			}
			return holds()
		})
	}
	c.apply(strings.NewReplacer("LIFE", life, "NODE", nodeName, "HOST", c.host()).Replace(mortalPods))
	soon("the job has failed, web is ready", func() error { return c.mortalsDone(life) })
	c.kubectl("delete", "pods", "-l", "life="+life, "--wait=false")
	soon("both are gone", func() error {
		if left := c.pods("life=" + life); len(left) > 0 {
			return fmt.Errorf("%d pods", len(left))
		}
		return nil
	})
	again()
	c.until("Node Ready", 20*time.Second, c.nodeReady)
	return where
}

// mortalsDone returns nil if the job has failed with its code and the other pod is ready, without a restart.
func (c *cluster) mortalsDone(life string) error {
	done, waits := 0, ""
	for _, pod := range c.pods("life=" + life) {
		if len(pod.Status.ContainerStatuses) == 0 {
			continue
		}
		s := pod.Status.ContainerStatuses[0]
		end := s.State.Terminated
		if strings.HasPrefix(pod.Name, "job") && pod.Status.Phase == v1.PodFailed && end != nil && end.ExitCode == 7 || strings.HasPrefix(pod.Name, "web") && s.Ready && s.RestartCount == 0 {
			done++
		}
		if s.State.Waiting != nil {
			waits += " " + s.State.Waiting.Message
		}
	}
	if done != 2 {
		return fmt.Errorf("%d of 2;%s", done, waits)
	}
	return nil
}

// lifeIsOver returns what differs from an undisturbed life at its end.
func (c *cluster) lifeIsOver(life string) (found []string) {
	for _, name := range []string{"job-" + life, "web-" + life} {
		lines, err := os.ReadFile(filepath.Join(c.host(), name))
		if err != nil || string(lines) != "ran\n" {
			found = append(found, fmt.Sprintf("starts of %s: %q, %v", name, lines, err))
		}
	}
	return found
}

// host is the folder that pods write to.
func (c *cluster) host() string {
	dir := filepath.Join(c.runtime.Root, "starts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	return dir
}
