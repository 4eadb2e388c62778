package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/internal/memoryapi"
)

// unstreamed is an API server that streams no lists.
type unstreamed struct{ http.RoundTripper }

func (u unstreamed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("sendInitialEvents") != "true" {
		return u.RoundTripper.RoundTrip(r)
	}
	text := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`
	return &http.Response{StatusCode: http.StatusUnprocessableEntity, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// TestObjectsDelayNoOtherCalls: KO12. The lists of the objects of one pod, which wait for their limiter for a minute,
// delay no other call.
func TestObjectsDelayNoOtherCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := memoryapi.New(nil)
		c := newConfig(t)
		a, err := New(Options{Config: &rest.Config{Host: "http://api", Transport: unstreamed{api.Transport("edge-1")}}}, &c)
		if err != nil {
			t.Fatal(err)
		}
		admin := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", Transport: api.Transport("")})
		if _, err := admin.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.objects.Run(ctx, func(podwright.Object) {}) }()
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "many", Namespace: "default", UID: "uid-many"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
		for i := range 3000 {
			from := v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: fmt.Sprint("config-", i)}}}
			pod.Spec.Containers[0].EnvFrom = append(pod.Spec.Containers[0].EnvFrom, from)
		}
		a.objects.Follow(pod)
		synctest.Wait()
		soon, enough := context.WithTimeout(t.Context(), time.Second)
		defer enough()
		if _, err := a.clients.all.CoreV1().Nodes().Get(soon, "edge-1", metav1.GetOptions{}); err != nil {
			t.Errorf("the node's own call: %v", err)
		}
		cancel()
		<-ended
	})
}
