//go:build apiserver && containerd && kubeup

package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestUp is `make kube-up`: a cluster that stays until SIGTERM. KUBE_UP names the folder
// that gets its kubeconfig, kubectl, logs and the process ID of kubenode.
func TestUp(t *testing.T) {
	dir := os.Getenv("KUBE_UP")
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	c := newCluster(t)
	c.start()
	c.until("Node Ready", 20*time.Second, c.nodeReady)
	log, err := os.OpenFile(filepath.Join(dir, "kubenode.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	c.logTo(log)
	kubectl := filepath.Join(dir, "kubectl")
	_ = os.Remove(kubectl)
	if err := os.Symlink(c.api.Program("kubectl"), kubectl); err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(dir, "kubeconfig")
	if err := c.api.Kubeconfig(ready+".new", c.api.Admin()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(ready+".new", ready); err != nil { // whole, or not at all
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(ready) }()
	fmt.Println("up")
	c.keepUp(dir, signals)
	if out, err := c.api.Kubectl(t.Context(), "delete", "deployments,daemonsets,statefulsets,jobs,cronjobs,pods", "--all", "-A", "--grace-period=1", "--timeout=30s"); err != nil {
		t.Logf("not everything could be deleted: %v\n%s", err, out)
	}
}

// keepUp starts kubenode again when it ends, as a service is, until a signal comes, or kubenode ends soon after its start.
// The folder has its process ID.
func (c *cluster) keepUp(dir string, signals <-chan os.Signal) {
	file := filepath.Join(dir, "kubenode.pid")
	defer func() { _ = os.Remove(file) }()
	for {
		if err := os.WriteFile(file, []byte(strconv.Itoa(c.agent.Process.Pid)+"\n"), 0o600); err != nil {
			c.t.Error(err)
		}
		begun := time.Now()
		select {
		case <-signals:
			return
		case <-c.ended:
		}
		if time.Since(begun) < 5*time.Second {
			c.t.Errorf("kubenode ended soon after its start:\n%s", c.tail())
			return
		}
		c.start()
	}
}

// logTo also writes the agent's log to w: what there is, and what comes.
func (c *cluster) logTo(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = w.Write(c.log.Bytes())
	c.also = w
}
