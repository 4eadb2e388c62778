//go:build containerd

package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
)

// TestContainerdHungPulls: IN1: 40 pods wait for a registry that takes requests and never
// answers. A new pod whose image is present runs within 3 s, a pod that ends is restarted
// at its back-off, and the pods that wait are removed as fast as any.
func TestContainerdHungPulls(t *testing.T) {
	const hung = 40
	runtime, manifests, args := onContainerd(t)
	marks := t.TempDir()
	var requests atomic.Int64
	registry := containerdtest.ServeRegistry(t, containerdtest.RegistryOptions{Before: func(r *http.Request) {
		requests.Add(1)
		<-r.Context().Done()
	}})
	address, _, _ := strings.Cut(registry.Image, "/")
	a := startAgent(t, args...)
	others := runBystanders(t, runtime, a, manifests, 5)
	restarts := restartsInTime(t, runtime, a, manifests, marks)
	var names []string
	for i := range hung {
		name := fmt.Sprintf("hung-%d", i)
		writeManifest(t, manifests, name+".yaml", pod(name, fmt.Sprintf("%s/hung:%d", address, i), "sleep 100000", "  hostNetwork: true"))
		names = append(names, name)
	}
	await(t, "every pull to hang", func() error {
		if n := requests.Load(); n < hung {
			return fmt.Errorf("the registry has %d requests", n)
		}
		return nil
	})
	startsInTime(t, runtime, a, manifests, "late", patience.Of(3*time.Second))
	restarts()
	others.check(a)
	if n := requests.Load(); n > hung {
		t.Errorf("the registry has %d requests for %d pods that wait", n, hung)
	}
	if _, text := a.get("/explain/default/" + names[0] + "-n1"); !strings.Contains(text, "SyncPod") {
		t.Errorf("the explanation of a pod that waits for its image: %s", text)
	}

	began := time.Now()
	for _, name := range names {
		remove(t, filepath.Join(manifests, name+".yaml"))
	}
	for _, name := range names {
		a.awaitGone(name)
	}
	took := time.Since(began)
	t.Logf("all were gone %v after their removal", took.Round(time.Millisecond))
	if took > patience.Of(10*time.Second) {
		t.Errorf("pods that only wait for images were gone %v after their removal", took)
	}
	others.check(a)
}
