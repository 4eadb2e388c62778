//go:build apiserver && containerd

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/apitest"
)

const nodeName = "edge-1"

// cluster is a whole one: control plane, containerd, and kubenode.
type cluster struct {
	t        *testing.T
	api      *apitest.Cluster
	runtime  *containerdtest.Instance
	operator *kubernetes.Clientset
	root     string
	config   string // kubeconfig of the agent
	admin    string // kubeconfig of the administrator
	serving  string // its certificate and key, without .crt and .key
	boot     string // see bootVariable

	mu    sync.Mutex
	agent *exec.Cmd
	ended chan struct{}
	log   bytes.Buffer
	also  io.Writer // gets the log too, nil for none
}

// newCluster starts a control plane and a containerd; kubenode is started by start.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterWith(t, apitest.Options{Scheduler: true, Controllers: true})
}

func newClusterWith(t *testing.T, options apitest.Options) *cluster {
	t.Helper()
	c := &cluster{t: t, runtime: containerdtest.Start(t)}
	c.api = apitest.Start(t, options)
	c.operator = kubernetes.NewForConfigOrDie(c.api.Admin())
	t.Cleanup(c.operator.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	dir := t.TempDir()
	c.root, c.config = filepath.Join(c.runtime.Root, "kubenode"), filepath.Join(dir, "kubeconfig")
	c.admin = filepath.Join(dir, "admin")
	if err := errors.Join(c.api.Kubeconfig(c.config, c.api.Node(nodeName)), c.api.Kubeconfig(c.admin, c.api.Admin())); err != nil {
		t.Fatal(err)
	}
	c.serving = filepath.Join(dir, "serving")
	certificate, key, err := c.api.ServingCertificate(nodeName, "127.0.0.1")
	if err := errors.Join(err, os.WriteFile(c.serving+".crt", certificate, 0o600), os.WriteFile(c.serving+".key", key, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("the end of kubenode's log:\n%s", c.tail())
		}
	})
	return c
}

// start starts kubenode, with the rights of kubenode.service.
func (c *cluster) start(args ...string) {
	c.t.Helper()
	line := confined(c.t, os.Args[0], append([]string{
		"--kubeconfig=" + c.config, "--node-name=" + nodeName, "--runtime=" + c.runtime.Endpoint, "--root=" + c.root,
		"--eviction-hard=memory.available<100Mi", // whatever the disk of this machine has left
		"--port=0", "--tls-cert-file=" + c.serving + ".crt", "--tls-private-key-file=" + c.serving + ".key",
	}, args...)...)
	command := exec.Command(line[0], line[1:]...)
	command.Env = append(os.Environ(), asNode+"=1", bootVariable+"="+c.boot)
	command.Stderr = writer(func(p []byte) (int, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.also != nil {
			_, _ = c.also.Write(p)
		}
		return c.log.Write(p)
	})
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = command.Wait() }()
	c.agent, c.ended = command, ended
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// kill ends kubenode with a signal and waits for it.
func (c *cluster) kill(s syscall.Signal) {
	c.t.Helper()
	if err := c.agent.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Error(err)
	}
	<-c.ended
	c.agent = nil
}

func (c *cluster) stop() {
	if c.agent != nil {
		c.kill(syscall.SIGTERM)
	}
}

// logged is the whole log so far.
func (c *cluster) logged() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

func (c *cluster) tail() string {
	s := c.logged()
	return s[max(0, len(s)-6000):]
}

// kubectl runs it as the administrator; a failure ends the test.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.api.Kubectl(c.t.Context(), args...)
	if err != nil {
		c.t.Fatal(out, err)
	}
	return out
}

// apply creates what a manifest describes.
func (c *cluster) apply(manifest string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(manifest, "IMAGE", c.runtime.Image)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("apply", "-f", file)
}

// until waits for a condition and tells how long it took; the test fails after the limit.
func (c *cluster) until(what string, limit time.Duration, holds func() error) time.Duration {
	c.t.Helper()
	began := time.Now()
	limit = patience.Of(limit)
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	for {
		err := holds()
		if err == nil {
			took := time.Since(began)
			c.t.Logf("%s: %s", what, took.Round(time.Millisecond))
			return took
		}
		if timing.Sleep(ctx, clock.RealClock{}, 100*time.Millisecond) != nil {
			out, _ := c.api.Kubectl(c.t.Context(), "get", "pods", "-A", "-o", "wide")
			c.t.Fatalf("%s: not after %s: %v\n%s", what, limit, err, out)
		}
	}
}

// pods are those with a label, such as app=web.
func (c *cluster) pods(selector string) []v1.Pod {
	list, err := c.operator.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil
	}
	return list.Items
}

// ready returns nil if exactly so many pods with the label exist and are Ready.
func (c *cluster) ready(selector string, n int) func() error {
	return func() error {
		pods, ready := c.pods(selector), 0
		for _, pod := range pods {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == v1.PodReady && condition.Status == v1.ConditionTrue && pod.DeletionTimestamp == nil {
					ready++
				}
			}
		}
		if ready != n || len(pods) != n {
			return fmt.Errorf("%d of %d pods are Ready, want %d", ready, len(pods), n)
		}
		return nil
	}
}

// nodeReady returns nil if the Node is Ready.
func (c *cluster) nodeReady() error {
	node, err := c.operator.CoreV1().Nodes().Get(c.t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady && condition.Status == v1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("conditions %v", node.Status.Conditions)
}

func (c *cluster) sleep(d time.Duration) {
	c.t.Helper()
	if err := timing.Sleep(c.t.Context(), clock.RealClock{}, d); err != nil {
		c.t.Fatal(err)
	}
}

func writeEmpty(file string) error { return os.WriteFile(file, nil, 0o600) }
