package objects_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/kube/internal/memoryapi"
	"github.com/podwright/podwright/kube/objects"
)

// muted is the way to a server that can cease to answer.
type muted struct {
	http.RoundTripper
	silent *atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (m muted) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.silent.Load() {
		return silence{}.RoundTrip(r)
	}
	return m.RoundTripper.RoundTrip(r)
}

// TestSilentServerLeavesTheLastAnswer (KO6): while the API server does not answer, every reader gets the last answer, also
// with a TTL, where one reads for the others, and of an immutable object that a new pod asks for.
func TestSilentServerLeavesTheLastAnswer(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"watched": 0, "read": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent := &atomic.Bool{}
				client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", QPS: -1, Transport: muted{memoryapi.New(nil).Transport(""), silent}})
				made := configMap("c", "one", "")
				made.Immutable = ptr.To(ttl == 0)
				if _, err := client.CoreV1().ConfigMaps("ns").Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				store, err := objects.New(objects.Options{Client: client, TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- store.Run(ctx, nil) }()
				read := func() (*v1.ConfigMap, error) { // as an engine does: its context ends when it waits no longer
					limited, cancel := context.WithCancel(t.Context())
					defer time.AfterFunc(10*time.Second, cancel).Stop()
					found, err := store.GetConfigMap(limited, "ns", "c")
					if limited.Err() != nil {
						err = limited.Err()
					}
					cancel()
					return found, err
				}
				store.Follow(podWith("old", "c"))
				if _, err := read(); err != nil {
					t.Fatal(err)
				}
				pass(2 * time.Minute)
				silent.Store(true)
				store.Follow(podWith("new", "c"))
				const readers = 5
				errs := make(chan error, readers)
				for range readers {
					go func() {
						_, err := read()
						errs <- err
					}()
				}
				for range readers {
					if err := <-errs; err != nil {
						t.Error(err)
					}
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestPodOfASilentServerIsWoken (KO6): a pod whose reader gave up is told when the API server has answered.
func TestPodOfASilentServerIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &atomic.Bool{}
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", QPS: -1, Transport: muted{memoryapi.New(nil).Transport(""), silent}})
		if _, err := client.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap("c", "one", ""), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		silent.Store(true)
		store, err := objects.New(objects.Options{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		told, done := 0, make(chan error)
		go func() { done <- store.Run(ctx, func(objects.Object) { told++ }) }()
		synctest.Wait()
		store.Follow(podWith("new", "c"))
		limited, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		if _, err := store.GetConfigMap(limited, "ns", "c"); err == nil {
			t.Error("read from a silent server")
		}
		pass(time.Minute)
		silent.Store(false)
		pass(10 * time.Minute)
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// KO6: with a TTL, a pod with many objects waits once for a server that does not answer; once it answers again, its answers count.
func TestSilentServerDelaysAPodWithManyObjectsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &atomic.Bool{}
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", QPS: -1, Transport: muted{memoryapi.New(nil).Transport(""), silent}})
		configMaps := client.CoreV1().ConfigMaps("ns")
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprint("c", i))
			if _, err := configMaps.Create(t.Context(), configMap(names[i], "old", ""), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		store, err := objects.New(objects.Options{Client: client, TTL: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		store.Follow(podWith("p", names...))
		read := func(want string) time.Duration {
			began := time.Now()
			for _, name := range names {
				if c, err := store.GetConfigMap(t.Context(), "ns", name); err != nil || c.Data["key"] != want {
					t.Errorf("%s: %v, err %v, want %q", name, c, err, want)
				}
			}
			return time.Since(began)
		}
		read("old")
		silent.Store(true)
		for range 5 {
			pass(time.Minute)
			if took := read("old"); took > 6*time.Second {
				t.Errorf("%v for all objects", took)
			}
		}
		silent.Store(false)
		for _, name := range names {
			if _, err := configMaps.Update(t.Context(), configMap(name, "new", ""), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		pass(10 * time.Second)
		read("new")
	})
}
