//go:build apiserver

package podsource

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	testpatience "github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/apitest"
)

// realNode is a source on a real API server, as system:node:edge-1.
type realNode struct {
	t        *testing.T
	cluster  *apitest.Cluster
	proxy    *apitest.Proxy
	operator *kubernetes.Clientset
	source   *Source
	events   *server

	mu   sync.Mutex
	sets [][]*v1.Pod
}

func startNode(t *testing.T, silence time.Duration) *realNode {
	t.Helper()
	n := &realNode{t: t, cluster: apitest.Start(t, apitest.Options{}), events: newServer()}
	n.operator = kubernetes.NewForConfigOrDie(n.cluster.Admin())
	t.Cleanup(func() { closeIdle(n.operator) })
	agent := kubernetes.NewForConfigOrDie(n.cluster.Node("edge-1"))
	if _, err := agent.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	closeIdle(agent)
	var err error
	if n.proxy, err = apitest.NewProxy(n.cluster.Node("edge-1")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.proxy.Close)
	through := kubernetes.NewForConfigOrDie(n.proxy.Config(n.cluster.Node("edge-1")))
	n.source, err = New(Options{
		NodeName: "edge-1", Client: through, RevisionFile: filepath.Join(t.TempDir(), "revision"), Silence: silence, Events: n.events,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.source.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.sets = append(n.sets, pods)
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); n.proxy.Cut(); <-done; closeIdle(through) })
	return n
}

func closeIdle(c *kubernetes.Clientset) {
	c.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
}

func (n *realNode) create(name string) *v1.Pod {
	n.t.Helper()
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       v1.PodSpec{NodeName: "edge-1", Containers: []v1.Container{{Name: "app", Image: "app:1"}}},
	}
	made, err := n.operator.CoreV1().Pods("default").Create(n.t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return made
}

func (n *realNode) remove(name string) {
	n.t.Helper()
	err := n.operator.CoreV1().Pods("default").Delete(n.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
	if err != nil {
		n.t.Fatal(err)
	}
}

// newest is the set delivered last, and how many there were.
func (n *realNode) newest() (names []string, sets int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.sets) > 0 {
		for _, p := range n.sets[len(n.sets)-1] {
			names = append(names, p.Name)
		}
	}
	return names, len(n.sets)
}

// shows waits until the newest set has exactly these pods.
func (n *realNode) shows(when string, limit time.Duration, names ...string) {
	n.t.Helper()
	took := testpatience.Within(n.t, limit, when, func() error {
		got, sets := n.newest()
		if sets == 0 || !slices.Equal(got, names) {
			return fmt.Errorf("the newest of %d sets is %q, want %q; health %+v", sets, got, names, n.source.Health())
		}
		return nil
	})
	n.t.Logf("%s: after %s", when, took.Round(time.Millisecond))
}

// TestAPIServerPods (KS1, KS3, KS4, KS5, KS6, KS10): on a real API server, pods come and
// go; while it is stopped the set stays, and afterwards is the truth again; a frozen
// connection is noticed by its silence (KS9).
func TestAPIServerPods(t *testing.T) {
	t.Parallel()
	n := startNode(t, 3*time.Second)
	n.shows("an empty cluster", 10*time.Second)
	first := n.create("a")
	n.shows("created", 5*time.Second, "a")
	if seen := n.source.Lookup(first.UID); seen == nil || seen.Name != "a" {
		t.Errorf("Lookup: %v", seen)
	}
	n.create("b")
	n.shows("another", 5*time.Second, "a", "b")

	if err := n.cluster.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	_, before := n.newest()
	pause(t, 5*time.Second)
	if _, sets := n.newest(); sets != before {
		t.Errorf("%d sets while the API server was away", sets-before)
	}
	if err := n.cluster.APIServer.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.cluster.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.remove("a")
	successor := n.create("a")
	n.remove("b")
	n.shows("back, with a successor", 40*time.Second, "a")
	if n.source.Lookup(first.UID) != nil || n.source.Lookup(successor.UID) == nil {
		t.Error("the set has the former life")
	}

	n.proxy.Freeze()
	n.create("c")
	pause(t, 5*time.Second)
	if h := n.source.Health(); h.LastError == nil || !strings.Contains(h.LastError.Error(), "nothing was heard") {
		t.Errorf("health on a frozen connection %+v", h)
	}
	n.proxy.Cut()
	n.proxy.Thaw()
	n.shows("after a frozen connection", 40*time.Second, "a", "c")
}

// TestAPIServerRewound (KS8, KS9): a restored backup is noticed by its silence, refused for
// a minute, and then counts.
func TestAPIServerRewound(t *testing.T) {
	t.Parallel()
	n := startNode(t, 3*time.Second)
	n.create("kept")
	n.shows("before", 10*time.Second, "kept")
	backup := filepath.Join(t.TempDir(), "backup")
	if err := n.cluster.Snapshot(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	var lost []string
	for i := range 20 {
		lost = append(lost, n.create(fmt.Sprintf("lost-%02d", i)).Name)
	}
	n.shows("after the backup", 40*time.Second, slices.Concat([]string{"kept"}, lost)...)
	if err := n.cluster.Rewind(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	n.shows("the backup counts", 3*time.Minute, "kept")
	if took := time.Since(began); took < 50*time.Second {
		t.Errorf("it counted after %s", took)
	}
	n.events.mu.Lock()
	defer n.events.mu.Unlock()
	if len(n.events.events) != 1 || !strings.HasPrefix(n.events.events[0], "APIServerBehind") {
		t.Errorf("events %q", n.events.events)
	}
}

// TestAPIServerCrowd: a thousand pods that come, or go, during a delivery are delivered together.
func TestAPIServerCrowd(t *testing.T) {
	t.Parallel()
	n := startNode(t, 0)
	n.shows("an empty cluster", 10*time.Second)
	const crowd = 1000
	made := make([]types.UID, crowd)
	known := func() (count int) {
		for _, uid := range made {
			if n.source.Lookup(uid) != nil {
				count++
			}
		}
		return count
	}
	// together makes a change of which the source hears during one delivery. Two sets may follow: it signals after it has heard.
	together := func(what string, want int, change func()) {
		t.Helper()
		before := func() int {
			n.mu.Lock() // no delivery ends
			defer n.mu.Unlock()
			change()
			testpatience.Until(t, what+": the source hears of all", func() bool { return known() == want })
			return len(n.sets)
		}()
		testpatience.Until(t, what+": all are delivered", func() bool { names, _ := n.newest(); return len(names) == want })
		if _, sets := n.newest(); sets > before+3 {
			t.Errorf("%s: %d sets", what, sets-before)
		}
	}
	together("created", crowd, func() {
		var wg sync.WaitGroup
		for worker := range 10 {
			wg.Go(func() {
				for i := worker; i < crowd; i += 10 {
					made[i] = n.create(fmt.Sprintf("pod-%04d", i)).UID
				}
			})
		}
		wg.Wait()
	})
	together("deleted", 0, func() {
		err := n.operator.CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	if err := timing.Sleep(t.Context(), clock.RealClock{}, d); err != nil {
		t.Fatal(err)
	}
}
