package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podwright/podwright/kube/internal/memoryapi"
)

// refusing is the way to an API server that refuses some requests, or does not answer them.
type refusing struct {
	inner http.RoundTripper

	mu sync.Mutex
	// refuse returns the code of the answer, 0 to pass the request on, or silent.
	refuse func(r *http.Request) int
	// statuses counts the requests for the Node's status.
	statuses int
}

const silent = -1

func (x *refusing) set(refuse func(r *http.Request) int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refuse, x.statuses = refuse, 0
}

// RoundTrip implements [http.RoundTripper].
func (x *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	x.mu.Lock()
	if strings.HasSuffix(r.URL.Path, "/status") {
		x.statuses++
	}
	code := 0
	if x.refuse != nil {
		code = x.refuse(r)
	}
	x.mu.Unlock()
	switch code {
	case 0:
		return x.inner.RoundTrip(r)
	case silent:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "2")
	}
	reason := map[int]metav1.StatusReason{429: metav1.StatusReasonTooManyRequests, 403: metav1.StatusReasonForbidden, 500: metav1.StatusReasonInternalError}[code]
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	return &http.Response{StatusCode: code, Header: header, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// newRefusing returns the way to an API server, and a node that takes it, with a client of its own
// for the lease.
func newRefusing(t *testing.T) (*rig, *refusing, func(o *Options)) {
	x := &refusing{inner: memoryapi.New(nil).Transport("")}
	return newRig(t), x, func(o *Options) {
		o.Skew = &Skew{}
		client := func() *kubernetes.Clientset {
			return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", Transport: x, WrapTransport: o.Skew.Wrap, QPS: 50, Burst: 100})
		}
		o.Client, o.Leases = client(), client().CoordinationV1()
	}
}

func (r *rig) reconnected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reconnects
}

// TestAnsweringServerKeepsItsConnections (KN9): a server that is busy, refuses or fails, does answer. Its
// answers are no reason to close connections, which makes all watches begin again; and a refused
// status is not tried again before the next period.
func TestAnsweringServerKeepsItsConnections(t *testing.T) {
	unwatched := func(code int) func(*http.Request) int {
		return func(r *http.Request) int {
			if r.URL.Query().Get("watch") != "" {
				return 0
			}
			return code
		}
	}
	for name, tc := range map[string]struct {
		refuse   func(r *http.Request) int
		statuses int // in an hour at most
	}{
		"busy":    {unwatched(http.StatusTooManyRequests), 360 * 6},
		"failing": {unwatched(http.StatusInternalServerError), 361},
		"status forbidden": {func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "/status") {
				return http.StatusForbidden
			}
			return 0
		}, 361},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, x, set := newRefusing(t)
				registrar, stop := r.start(set)
				after(time.Minute)
				x.set(tc.refuse)
				registrar.signal()
				after(time.Hour)
				x.mu.Lock()
				n := x.statuses
				x.mu.Unlock()
				if r.reconnected() != 0 || n == 0 || n > tc.statuses {
					t.Errorf("%d reconnects, %d requests for the status in an hour", r.reconnected(), n)
				}
				stop()
			})
		})
	}
}

// TestDeadConnectionOfTheLease (KN9): answers to another client prove nothing about the connection
// that the lease is renewed over.
func TestDeadConnectionOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, x, set := newRefusing(t)
		registrar, stop := r.start(set)
		after(time.Minute)
		x.set(func(q *http.Request) int {
			if strings.Contains(q.URL.Path, "/leases/") && r.reconnected() == 0 {
				return silent
			}
			return 0
		})
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		for ctx.Err() == nil {
			_, _ = registrar.options.Client.CoreV1().Nodes().Get(ctx, "edge-1", metav1.GetOptions{})
			after(time.Second)
		}
		lease, err := registrar.options.Leases.Leases(v1.NamespaceNodeLease).Get(t.Context(), "edge-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(lease.Spec.RenewTime.Time); age > 15*time.Second || r.reconnected() != 1 {
			t.Errorf("the lease is %s old after %d reconnects", age, r.reconnected())
		}
		stop()
	})
}

// TestUnansweredStatusTakesNewConnections (KN9): from the third attempt on, if nothing was heard.
func TestUnansweredStatusTakesNewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		registrar, stop := r.start(nil)
		after(time.Minute)
		before := r.reconnected()
		r.setAway(errAway)
		registrar.signal()
		after(5 * time.Second)
		if n := r.reconnected() - before; n != 1 {
			t.Errorf("%d reconnects", n)
		}
		stop()
	})
}

// TestSilentNodeWatchIsReplaced: a watch of the Node from before the server was restored from a backup
// sends nothing and does not end. The Node is read again.
func TestSilentNodeWatchIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil })
		registrar, stop := r.start(nil)
		after(time.Minute)
		changed := r.node().DeepCopy()
		changed.Labels["disk"] = "ssd"
		if err := r.api.Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), changed, ""); err != nil {
			t.Fatal(err)
		}
		after(2 * time.Hour)
		if registrar.Object().Labels["disk"] != "ssd" {
			t.Error("a label that was added 2 h ago is not known")
		}
		stop()
	})
}
