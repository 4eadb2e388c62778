package objects_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/kube/offline"
)

// lists are services and runtime classes on a disk.
type lists struct {
	*objects.Services
	*objects.RuntimeClasses
	cache *offline.Cache
}

// lists runs them until the returned function is called.
func (d disk) lists(a *api) (l lists, cut func()) {
	d.t.Helper()
	cache, end := d.boot()
	l.cache = cache
	o := objects.ListOptions{Client: a, Cache: cache}
	var err error
	if l.Services, err = objects.NewServices(o); err != nil {
		d.t.Fatal(err)
	}
	if l.RuntimeClasses, err = objects.NewRuntimeClasses(o); err != nil {
		d.t.Fatal(err)
	}
	stopServices, stopClasses := runs(d.t, l.Services.Run), runs(d.t, l.RuntimeClasses.Run)
	return l, func() { stopServices(); stopClasses(); end() }
}

// names are the services of a namespace, or that they are unknown.
func (l lists) names(namespace string) string {
	list, known := l.Services.Services(namespace)
	if !known {
		return "unknown"
	}
	var out []string
	for _, s := range list {
		out = append(out, s.Name+"="+s.Spec.ClusterIP)
	}
	return strings.Join(out, " ")
}

func (l lists) handler(class string) string {
	c, err := l.RuntimeClass(class)
	if err != nil {
		return "error: " + err.Error()
	}
	return c.Handler
}

// KO8: a namespace whose pods come and go, as those of a cron job do, is kept again with each of them. One that has had none
// for long is not kept with the next list.
func TestServicesOfPodsThatReturnAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := func(name string) *v1.Service {
			return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "batch", Name: name}}
		}
		d, a := newDisk(t), newAPI(t, service("db"))
		l, cut := d.lists(a)
		idle := func() {
			for range 2 {
				l.cache.Retain(func(e offline.Entry) bool { return e.Namespace != "batch" })
			}
		}
		if got := l.names("batch"); got != "db=" {
			t.Error(got)
		}
		idle()
		if got := l.names("batch"); got != "db=" {
			t.Error(got)
		}
		cut()

		a.refuse(errAway)
		l, cut = d.lists(a)
		<-time.After(time.Minute)
		if got := l.names("batch"); got != "db=" {
			t.Errorf("offline: %q", got)
		}
		a.refuse(nil)
		<-time.After(time.Minute)
		idle()
		a.refuse(errAway) // and list again
		<-time.After(time.Minute)
		a.refuse(nil)
		<-time.After(time.Minute)
		if l.cache.Has(offline.Entry{Kind: offline.Services, Namespace: "batch"}) {
			t.Error("the services of a namespace without pods are kept again")
		}
		cut()
	})
}

// KO8: without an API server the services of the namespaces that had pods are known, 2 s after the start, and the runtime classes;
// other namespaces are not. The first list counts, and what changes from then on is kept.
func TestServicesAndClassesOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDisk(t), newAPI(t,
			&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}, Spec: v1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []v1.ServicePort{{Port: 1}}}},
			&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "x"}},
			&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "kata"})
		l, cut := d.lists(a)
		for namespace, want := range map[string]string{"ns": "db=10.0.0.1", "empty": ""} {
			if got := l.names(namespace); got != want {
				t.Errorf("services of %s: %q", namespace, got)
			}
		}
		if got := l.handler("sandboxed"); got != "kata" {
			t.Error(got)
		}
		cut()

		a.refuse(errAway)
		l, cut = d.lists(a)
		<-time.After(time.Minute)
		for namespace, want := range map[string]string{"ns": "db=10.0.0.1", "empty": "", "other": "unknown"} {
			if got := l.names(namespace); got != want {
				t.Errorf("offline, services of %s: %q", namespace, got)
			}
		}
		if got := l.handler("sandboxed"); got != "kata" {
			t.Errorf("offline: %s", got)
		}
		if got := l.handler("none"); !strings.Contains(got, "not found") {
			t.Errorf("offline: %s", got)
		}
		if _, err := a.CoreV1().Services("ns").Create(t.Context(), &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		a.refuse(nil)
		<-time.After(time.Minute)
		if got := l.names("ns"); got != "db=10.0.0.1 web=" {
			t.Errorf("after the return: %q", got)
		}
		if err := a.CoreV1().Services("ns").Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		cut()
		a.refuse(errAway)
		l, cut = d.lists(a)
		<-time.After(time.Minute)
		if got := l.names("ns"); got != "web=" {
			t.Errorf("after another restart: %q", got)
		}
		cut()
	})
}

// KO8: an API server that never answers is waited for, for 2 s.
func TestListsWaitForASilentAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDisk(t), newAPI(t, service("ns", "db"))
		l, cut := d.lists(a)
		_ = l.names("ns")
		cut()
		cache, end := d.boot()
		var o objects.Options
		silent(&o)
		services, err := objects.NewServices(objects.ListOptions{Client: o.Client, Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		stop := runs(t, services.Run)
		for _, want := range []bool{false, true} {
			if _, known := services.Services("ns"); known != want {
				t.Errorf("known: %t", known)
			}
			<-time.After(2 * time.Second)
		}
		if got := len(cache.Entries(offline.Services)); got != 1 {
			t.Errorf("%d entries", got)
		}
		stop()
		end()
	})
}

// KO8: a namespace that a full cache left out is kept with a later change, once there is room; a list in between does not
// change that.
func TestServicesThatTheCacheLeftOutAreKeptLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "large"}, Data: map[string]string{"key": strings.Repeat("x", 60<<10)}}
		big := offline.Entry{Kind: offline.ConfigMap, Namespace: "ns", Name: "large"}
		db := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}, Spec: v1.ServiceSpec{ClusterIP: "10.0.0.1"}}
		for n := range int32(200) { // some 8 KiB
			db.Spec.Ports = append(db.Spec.Ports, v1.ServicePort{Name: fmt.Sprintf("port-%d", n), Port: n + 1})
		}
		d, a := newDisk(t), newAPI(t, db)
		d.most = 64 << 10
		l, cut := d.lists(a)
		l.cache.Put(big, large)
		l.names("ns")
		a.refuse(errAway) // and list again
		<-time.After(time.Minute)
		a.refuse(nil)
		<-time.After(time.Minute)
		if l.cache.Has(offline.Entry{Kind: offline.Services, Namespace: "ns"}) {
			t.Fatal("the cache is not full")
		}
		l.cache.Remove(big)
		if _, err := a.CoreV1().Services("ns").Create(t.Context(), &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if !l.cache.Has(offline.Entry{Kind: offline.Services, Namespace: "ns"}) {
			t.Error("the services are left out although there is room")
		}
		cut()
	})
}
