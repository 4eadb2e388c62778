//go:build apiserver

package statussink

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/kube/apitest"
	"github.com/podwright/podwright/kube/podsource"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
)

const nodeName = "n1"

// real is a client of a real API server that counts its calls.
type real struct {
	kubernetes.Interface
	mu    sync.Mutex
	calls map[string]int
	// busy is when the server last said that it has too much to do, and soonest the
	// shortest time after it to the next call.
	busy    time.Time
	soonest time.Duration
	tooMany int
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newReal(t *testing.T, config *rest.Config, wraps ...func(http.RoundTripper) http.RoundTripper) *real {
	t.Helper()
	x := &real{calls: map[string]int{}, soonest: time.Hour}
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			x.began(r)
			answer, err := next.RoundTrip(r)
			if err == nil && answer.StatusCode == http.StatusTooManyRequests {
				x.refused()
			}
			return answer, err
		})
	})
	for _, wrap := range wraps {
		config.Wrap(wrap)
	}
	client := kubernetes.NewForConfigOrDie(config)
	t.Cleanup(client.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	x.Interface = client
	return x
}

func (x *real) began(r *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls[r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/namespaces/")+1:]]++
	if !x.busy.IsZero() {
		x.soonest = min(x.soonest, time.Since(x.busy))
	}
}

func (x *real) refused() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.busy, x.tooMany = time.Now(), x.tooMany+1
}

// count is how many calls there were of a method, and the most about one object.
func (x *real) count(method string) (all, most int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for call, n := range x.calls {
		if strings.HasPrefix(call, method) {
			all, most = all+n, max(most, n)
		}
	}
	return all, most
}

// realCluster is a cluster with a Node, and clients of an operator and of that node.
func realCluster(t *testing.T, options apitest.Options) (cluster *apitest.Cluster, operator, node *real) {
	t.Helper()
	cluster = apitest.Start(t, options)
	operator, node = newReal(t, cluster.Admin()), newReal(t, cluster.Node(nodeName))
	if _, err := node.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return cluster, operator, node
}

func (x *real) create(t *testing.T, name string) *v1.Pod {
	t.Helper()
	pod := runnable("", name)
	pod.Namespace, pod.Spec.AutomountServiceAccountToken = "default", ptr.To(false)
	made, err := x.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// remove deletes a pod as kubectl delete --force does.
func (x *real) remove(t *testing.T, name string) {
	t.Helper()
	if err := x.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
}

func (x *real) patch(ctx context.Context, name, patch string) error {
	_, err := x.CoreV1().Pods("default").Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

func realSink(t *testing.T, client kubernetes.Interface, lookup func(types.UID) *v1.Pod) *Sink {
	t.Helper()
	sink, err := New(Options{Client: client, Lookup: lookup, QPS: 1e6, Burst: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

// watch shows the pods of the node as the server's watch does, until the test ends.
func watch(t *testing.T, client kubernetes.Interface) *watched {
	t.Helper()
	stream, err := client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for event := range stream.ResultChan() {
			if pod, ok := event.Object.(*v1.Pod); ok {
				w.show(pod)
			}
		}
	})
	t.Cleanup(func() { stream.Stop(); wg.Wait() })
	return w
}

// realAgent is an engine on the fake runtime before a real API server.
func realAgent(t *testing.T, config *rest.Config, rt *fake.Runtime) (*agent, func() *real) {
	t.Helper()
	var client *real
	a := &agent{t: t, rt: rt, root: t.TempDir()}
	a.connect = func(l *link) (kubernetes.Interface, syncloop.Source, func(types.UID) *v1.Pod) {
		client = newReal(t, rest.CopyConfig(config), func(next http.RoundTripper) http.RoundTripper {
			l.next = next
			return l
		})
		source, err := podsource.New(podsource.Options{NodeName: nodeName, Client: client, RevisionFile: filepath.Join(a.root, "revision")})
		if err != nil {
			t.Fatal(err)
		}
		return client, source, source.Lookup
	}
	return a, func() *real { return client }
}

// known waits until the API server lets the node read a pod: it hears of a new one's node a
// moment after it has made the pod.
func (r *real) known(t *testing.T, pod *v1.Pod) *v1.Pod {
	t.Helper()
	// A server that accepts and sends nothing must not hang the test.
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(time.Minute))
	defer cancel()
	patience.Within(t, time.Minute, "the node may read "+pod.Name, func() error {
		got, err := r.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && got.UID != pod.UID {
			err = fmt.Errorf("its UID is %s, want %s", got.UID, pod.UID)
		}
		return err
	})
	return pod
}
