//go:build containerd

package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// counted is a client that counts the calls with which an engine looks at the runtime.
type counted struct {
	*cri.Client

	mu    sync.Mutex
	calls map[string]int
}

func (c *counted) count(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[method]++
}

// taken returns the counts and begins again.
func (c *counted) taken() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = map[string]int{}
	return calls
}

func (c *counted) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	c.count("ListPodSandbox")
	return c.Client.ListPodSandbox(ctx, f)
}

func (c *counted) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	c.count("ListContainers")
	return c.Client.ListContainers(ctx, f)
}

func (c *counted) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	c.count("PodSandboxStatus")
	return c.Client.PodSandboxStatus(ctx, id, verbose)
}

func (c *counted) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	c.count("ContainerStatus")
	return c.Client.ContainerStatus(ctx, id, verbose)
}

func (c *counted) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	c.count("Status")
	return c.Client.Status(ctx, verbose)
}

// TestContainerdEventStream: spec/pleg.md 10, EV3: exits reach the engine by the stream, and
// while it is up the runtime is listed less often. What is logged are the figures of
// docs/benchmarks/engine.md; the limits are there to catch a lost exit on a loaded machine.
func TestContainerdEventStream(t *testing.T) {
	const pods, quiet, span = 10, 10 * time.Second, 20 * time.Second
	limit := patience.Of(10 * time.Second)
	var client *counted
	var rt *containerdtest.Instance
	n := startNode(t, func(i *containerdtest.Instance, c *podwright.Config) {
		rt = i
		client = &counted{Client: c.Runtime.(*cri.Client), calls: map[string]int{}}
		c.Runtime = client
	})
	var names []string
	for i := range pods {
		name := fmt.Sprintf("again-%d", i)
		names = append(names, name+"-"+nodeName)
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  terminationGracePeriodSeconds: 0\n" +
			"  containers:\n  - {name: main, image: busybox, imagePullPolicy: Never, command: [sleep, \"1000\"]}\n"
		if err := os.WriteFile(filepath.Join(n.manifests, name+".yaml"), []byte(n.words.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for _, name := range names {
		ids = append(ids, n.running(t, name, ""))
	}
	var waits []time.Duration
	for i, name := range names {
		if err := unix.Kill(rt.PIDOf(ids[i]), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		next := n.running(t, name, ids[i])
		ended, started := n.moments(t, client.Client, ids[i], next)
		waits = append(waits, started.Sub(ended))
		if d := waits[i]; d > limit {
			t.Errorf("%s was started again %v after its end, limit %v", name, d, limit)
		}
	}
	slices.Sort(waits)
	<-time.After(quiet)
	client.taken()
	<-time.After(span)
	calls := client.taken()
	lists := calls["ListPodSandbox"] + calls["ListContainers"]
	t.Logf("from the end of a container to its next start: %v to %v, half of them within %v", waits[0], waits[pods-1], waits[pods/2])
	t.Logf("calls of an idle minute with %d pods: %d lists, %v in %v", pods, lists*int(time.Minute/span), calls, span)
	if inspected := calls["PodSandboxStatus"] + calls["ContainerStatus"]; inspected > 0 {
		t.Errorf("%d inspections while nothing happened", inspected)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := client.GetContainerEvents(ctx, make(chan *runtimeapi.ContainerEventResponse), nil); errors.Is(err, runtime.ErrUnimplemented) {
		t.Skip("the runtime has no event stream: exits are left to a relist a second")
	}
	// Without the stream there are two a second.
	if limit := int(span / time.Second); lists > limit {
		t.Errorf("%d lists in %v, want at most %d while the stream is up", lists, span, limit)
	}
}

// running waits until a pod's container runs that is not the one given, and returns its ID.
func (n *node) running(t *testing.T, name, not string) (id string) {
	t.Helper()
	n.await(t, name, n.until, func() []string {
		p := n.pod(name)
		if p == nil || p.Status.Phase != v1.PodRunning || len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].State.Running == nil {
			return []string{"it does not run"}
		}
		if _, id, _ = strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://"); id == not {
			return []string{"it has not been started again"}
		}
		return nil
	})
	return id
}

// moments are the end of one container and the start of the next by the runtime's clock,
// finer than a status has them.
func (n *node) moments(t *testing.T, c *cri.Client, old, next string) (ended, started time.Time) {
	t.Helper()
	read := func(id string) *runtimeapi.ContainerStatus {
		response, err := c.ContainerStatus(t.Context(), id, false)
		if err != nil {
			t.Fatal(err)
		}
		return response.GetStatus()
	}
	return time.Unix(0, read(old).GetFinishedAt()), time.Unix(0, read(next).GetStartedAt())
}
