package objects_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/runtime/cri"
)

// notes are the changes that were told.
type notes struct {
	mu   sync.Mutex
	told []string
}

func (n *notes) changed(o objects.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, strings.TrimSpace(o.Kind+" "+o.Namespace+" "+o.Name))
}

// since returns what was told since the last call.
func (n *notes) since() string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	out := strings.Join(n.told, ", ")
	n.told = nil
	return out
}

// runs runs a list until the end of the test.
func runs(t *testing.T, run func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func service(namespace, name string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1"}, Spec: v1.ServiceSpec{ClusterIP: "10.0.0.1"}}
}

// KO10: services are unknown until the first list; then pods that wait for them are told, and an
// outage leaves them as they were.
func TestServicesAreUnknownUntilListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, told := newAPI(t, service("ns", "b"), service("ns", "a"), service("default", "kubernetes")), &notes{}
		s, err := objects.NewServices(objects.ListOptions{Client: a, Changed: told.changed})
		if err != nil {
			t.Fatal(err)
		}
		names := func(namespace string) string {
			list, synced := s.Services(namespace)
			out := []string{}
			for _, x := range list {
				out = append(out, x.Name)
			}
			if !synced {
				return "unknown"
			}
			return strings.Join(out, " ")
		}
		a.refuse(errors.New("connection refused"))
		end := runs(t, s.Run)
		defer end()
		if err := s.Run(t.Context()); !errors.Is(err, objects.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		<-time.After(time.Minute)
		if got := names("ns"); got != "unknown" || told.since() != "" {
			t.Errorf("KO10: services %s without an API server", got)
		}
		a.refuse(nil)
		<-time.After(time.Minute)
		if got := told.since(); got != "Service default" {
			t.Errorf("KO10: told %q", got)
		}
		if names("ns") != "a b" || names("default") != "kubernetes" || names("other") != "" {
			t.Errorf("KO10: %q, %q, %q", names("ns"), names("default"), names("other"))
		}
		if err := a.CoreV1().Services("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.CoreV1().Services("ns").Create(t.Context(), service("ns", "c"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := names("ns"); got != "b c" {
			t.Errorf("KO10: after changes %q", got)
		}
		a.refuse(errors.New("connection refused"))
		<-time.After(time.Hour)
		if got := names("ns"); got != "b c" || told.since() != "" {
			t.Errorf("KO10: in an outage %q", got)
		}
		a.refuse(nil)
		<-time.After(time.Minute)
		if got := names("ns"); got != "b c" || told.since() != "" {
			t.Errorf("KO10: after an outage %q", got)
		}
	})
}

// KO11: a class that does not exist is told apart from classes that are not known; each that comes or
// changes is told.
func TestRuntimeClassesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := func(handler string) *nodev1.RuntimeClass {
			return &nodev1.RuntimeClass{
				ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: handler,
				Overhead: &nodev1.Overhead{PodFixed: v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}},
			}
		}
		a, told := newAPI(t), &notes{}
		r, err := objects.NewRuntimeClasses(objects.ListOptions{Client: a, Changed: told.changed})
		if err != nil {
			t.Fatal(err)
		}
		want := func(handler, reason string) {
			t.Helper()
			synctest.Wait()
			got, err := r.RuntimeClass("sandboxed")
			if got.Handler != handler || (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
				t.Errorf("KO11: %+v, err %v, want %q, %q", got, err, handler, reason)
			}
		}
		want("", "has not answered yet")
		a.refuse(errors.New("connection refused"))
		end := runs(t, r.Run)
		defer end()
		want("", "connection refused")
		if _, err := r.RuntimeClass("sandboxed"); cri.IsNotFound(err) {
			t.Errorf("KO11: an outage is read as absence: %v", err)
		}
		a.refuse(nil)
		<-time.After(time.Minute)
		want("", "not found")
		if _, err := r.RuntimeClass("sandboxed"); !cri.IsNotFound(err) {
			t.Errorf("KO11: err %v", err)
		}
		classes := a.NodeV1().RuntimeClasses()
		if _, err := classes.Create(t.Context(), class("kata"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		want("kata", "")
		if got, _ := r.RuntimeClass("sandboxed"); got.Overhead.Memory().String() != "64Mi" {
			t.Errorf("KO11: overhead %v", got.Overhead)
		}
		if _, err := classes.Update(t.Context(), class("gvisor"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		want("gvisor", "")
		if got := told.since(); got != "RuntimeClass  sandboxed, RuntimeClass  sandboxed" {
			t.Errorf("KO11: told %q", got)
		}
		if err := classes.Delete(t.Context(), "sandboxed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		want("", "not found")
		a.refuse(errors.New("connection refused"))
		<-time.After(time.Second)
		again := class("kata")
		if _, err := classes.Create(t.Context(), again, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		a.refuse(nil)
		<-time.After(time.Minute)
		want("kata", "")
		if got := told.since(); got != "RuntimeClass  sandboxed" {
			t.Errorf("KO11: told %q of a class that came in an outage", got)
		}
		a.refuse(errors.New("connection refused"))
		<-time.After(time.Second)
		other := class("gvisor")
		other.UID = "another"
		err = classes.Delete(t.Context(), "sandboxed", metav1.DeleteOptions{})
		if _, made := classes.Create(t.Context(), other, metav1.CreateOptions{}); err != nil || made != nil {
			t.Fatal(err, made)
		}
		a.refuse(nil)
		<-time.After(time.Minute)
		want("gvisor", "")
		if got := told.since(); got != "RuntimeClass  sandboxed" {
			t.Errorf("KO7: told %q of a class that was deleted and created in an outage", got)
		}
		a.refuse(errors.New("connection refused"))
		<-time.After(time.Second)
		a.refuse(nil)
		<-time.After(time.Minute)
		if got := told.since(); got != "" {
			t.Errorf("KO11: told %q of a class that is as it was", got)
		}
	})
}

func TestListsNeedAClient(t *testing.T) {
	_, one := objects.NewServices(objects.ListOptions{})
	_, two := objects.NewRuntimeClasses(objects.ListOptions{})
	if one == nil || two == nil {
		t.Errorf("%v, %v", one, two)
	}
}
