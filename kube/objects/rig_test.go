package objects_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podwright/podwright/kube/objects"
)

// api is an API server that counts, and refuses while it is told to.
type api struct {
	*fake.Clientset
	t *testing.T

	mu      sync.Mutex
	refused error
	calls   []string
	open    int // watches
	cut     []func()
}

func newAPI(t *testing.T, initial ...k8sruntime.Object) *api {
	a := &api{Clientset: fake.NewClientset(initial...), t: t}
	a.PrependReactor("*", "*", func(action clienttesting.Action) (bool, k8sruntime.Object, error) {
		return a.judge(action) != nil, nil, a.current()
	})
	a.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if err := a.judge(action); err != nil {
			return true, nil, err
		}
		w, err := a.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		a.count(1)
		c := &counted{Interface: w, stop: sync.OnceFunc(func() { a.count(-1); w.Stop() })}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cut = append(a.cut, c.stop)
		return true, c, nil
	})
	return a
}

// counted is a watch whose end is noticed.
type counted struct {
	watch.Interface
	stop func()
}

func (c *counted) Stop() { c.stop() }

func (a *api) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open += n
}

// judge notes a reading request and says whether it is refused.
func (a *api) judge(action clienttesting.Action) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
		return nil
	}
	a.calls = append(a.calls, action.GetVerb()+" "+action.GetResource().Resource+" "+selected(action))
	return a.refused
}

// selected is the name that a request asks for.
func selected(action clienttesting.Action) string {
	switch x := action.(type) {
	case clienttesting.GetAction:
		return x.GetName()
	case clienttesting.ListAction:
		return x.GetListRestrictions().Fields.String()
	case clienttesting.WatchAction:
		return x.GetWatchRestrictions().Fields.String()
	}
	return "?"
}

func (a *api) current() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// refuse answers all reading requests with err and cuts the watches; nil ends that.
func (a *api) refuse(err error) {
	a.mu.Lock()
	a.refused = err
	cut := a.cut
	if err == nil {
		cut = nil
	} else {
		a.cut = nil
	}
	a.mu.Unlock()
	for _, c := range cut {
		c()
	}
}

// seen returns the requests since the last call, and the open watches.
func (a *api) seen() (calls string, open int) {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	calls, a.calls = strings.Join(a.calls, ", "), nil
	return calls, a.open
}

func (a *api) put(o k8sruntime.Object) {
	a.t.Helper()
	var err error
	switch o := o.(type) {
	case *v1.ConfigMap:
		c := a.CoreV1().ConfigMaps(o.Namespace)
		if _, err = c.Update(a.t.Context(), o, metav1.UpdateOptions{}); err != nil {
			_, err = c.Create(a.t.Context(), o, metav1.CreateOptions{})
		}
	case *v1.Secret:
		c := a.CoreV1().Secrets(o.Namespace)
		if _, err = c.Update(a.t.Context(), o, metav1.UpdateOptions{}); err != nil {
			_, err = c.Create(a.t.Context(), o, metav1.CreateOptions{})
		}
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) remove(name string) {
	a.t.Helper()
	if err := a.CoreV1().ConfigMaps("ns").Delete(a.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

// configMap makes a config map; version tells its life and content apart.
func configMap(name, text, version string) *v1.ConfigMap {
	return &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: version},
		Data:       map[string]string{"key": text},
	}
}

// podWith makes a pod that takes its environment from config maps.
func podWith(uid types.UID, names ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid}}
	c := v1.Container{Name: "app"}
	for _, name := range names {
		c.EnvFrom = append(c.EnvFrom, v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}

// rig is a store that runs.
type rig struct {
	*objects.Store
	t   *testing.T
	api *api

	mu   sync.Mutex
	told []string
	logs strings.Builder
}

// newRig runs a store until the returned function is called.
func newRig(t *testing.T, a *api, change ...func(*objects.Options)) (r *rig, end func()) {
	t.Helper()
	r = &rig{t: t, api: a}
	o := objects.Options{Client: a, Logger: funcr.New(func(prefix, args string) {
		r.InUse(objects.Object{}) // would deadlock under the store's lock
		r.mu.Lock()
		defer r.mu.Unlock()
		r.logs.WriteString(prefix + args + "\n")
	}, funcr.Options{Verbosity: 10})}
	for _, c := range change {
		c(&o)
	}
	var err error
	if r.Store, err = objects.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- r.Run(ctx, func(o objects.Object) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, o.Kind+" "+o.Name)
		})
	}()
	synctest.Wait()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, open := a.seen(); open != 0 {
			t.Errorf("%d watches are left after Run", open)
		}
	}
}

// changes returns what was told since the last call.
func (r *rig) changes() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	told := strings.Join(r.told, ", ")
	r.told = nil
	return told
}

// text is what a reader of a config map gets.
func (r *rig) text(name string) string {
	c, err := r.GetConfigMap(r.t.Context(), "ns", name)
	if err != nil {
		return fmt.Sprintf("error: %v", err)
	}
	return c.Data["key"]
}

func (r *rig) want(name, want string) {
	r.t.Helper()
	if got := r.text(name); got != want {
		r.t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// hang answers no request before the channel is closed.
func hang(until chan struct{}) clienttesting.ReactionFunc {
	return func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		<-until
		return false, nil, nil
	}
}
