//go:build apiserver

package events

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/kube/apitest"
)

// TestAPIServerEvents: KV4, KW4. A real API server under NodeRestriction takes the events of a
// node, counts those that repeat, and gets those of an outage after it.
func TestAPIServerEvents(t *testing.T) {
	cluster := apitest.Start(t, apitest.Options{})
	node, operator := kubernetes.NewForConfigOrDie(cluster.Node("n1")), kubernetes.NewForConfigOrDie(cluster.Admin())
	for _, client := range []*kubernetes.Clientset{node, operator} {
		t.Cleanup(client.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	}
	r, err := New(Options{Client: node, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()

	web := &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "u1", FieldPath: "spec.containers{main}"}
	for range 3 {
		r.Eventf(web, v1.EventTypeWarning, "BackOff", "crashes")
	}
	r.Eventf(&v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "n1"}, v1.EventTypeNormal, "NodeReady", "it is")
	until(t, operator, "before the outage", "web BackOff x3", "n1 NodeReady x1")

	if err := cluster.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	r.Eventf(web, v1.EventTypeWarning, "Failed", "while the server is away")
	r.Eventf(web, v1.EventTypeWarning, "BackOff", "crashes")
	if err := cluster.APIServer.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Eventf(web, v1.EventTypeNormal, "Started", "after it")
	until(t, operator, "after the outage", "web Failed x1", "web BackOff x4", "web Started x1")

	r.Eventf(web, v1.EventTypeNormal, "Killing", "at the end")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	until(t, operator, "after the end of Run", "web Killing x1")
}

// until waits until the server has events, as "name reason xcount".
func until(t *testing.T, operator kubernetes.Interface, what string, want ...string) {
	t.Helper()
	// A server that accepts and sends nothing must not hang the test.
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(time.Minute))
	defer cancel()
	patience.Within(t, time.Minute, what, func() error {
		list, err := operator.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for i := range list.Items {
			e := &list.Items[i]
			there[fmt.Sprintf("%s %s x%d", e.InvolvedObject.Name, e.Reason, e.Count)] = true
		}
		for _, w := range want {
			if !there[w] {
				return fmt.Errorf("no %s; there is %v", w, there)
			}
		}
		return nil
	})
}
