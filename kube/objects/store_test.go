package objects_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// KO1, KO2: an object is watched once while pods refer to it, however many they are; no other is.
func TestOnlyReferencedObjectsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, configMap("shared", "one", "1"), configMap("own", "two", "1"), configMap("other", "x", "1"))
		r, end := newRig(t, a)
		defer end()
		for i := range 1000 {
			r.Follow(podWith(types.UID(fmt.Sprint("p", i)), "shared"))
		}
		r.Follow(podWith("p0", "shared", "own"))
		calls, open := a.seen()
		if want := "list configmaps metadata.name=shared, watch configmaps metadata.name=shared, list configmaps metadata.name=own, watch configmaps metadata.name=own"; len(calls) != len(want) || open != 2 {
			t.Errorf("KO2: %d watches, calls %s", open, calls)
		}
		for range 1000 {
			r.want("shared", "one")
		}
		r.want("own", "two")
		if calls, _ := a.seen(); calls != "" {
			t.Errorf("KO2: readers caused %s", calls)
		}
		r.want("other", "x") // of a pod that is not followed
		if calls, open := a.seen(); calls != "get configmaps other" || open != 2 {
			t.Errorf("KO1: %d watches, calls %s", open, calls)
		}
		r.Follow(podWith("p0", "shared")) // a new version of the pod
		if _, open := a.seen(); open != 1 {
			t.Errorf("KO1: %d watches after the last reference to one of two is gone", open)
		}
		for i := range 1000 {
			if _, open := a.seen(); open != 1 {
				t.Fatalf("KO1: %d watches with %d pods left", open, 1000-i)
			}
			r.Forget(types.UID(fmt.Sprint("p", i)))
		}
		r.Forget("p0")
		if _, open := a.seen(); open != 0 {
			t.Errorf("KO1: %d watches without pods", open)
		}
	})
}

// KO2: pods that have not changed cost nothing, however often they are followed.
func TestUnchangedPodsCostNothing(t *testing.T) {
	store, err := objects.New(objects.Options{Client: newAPI(t)})
	if err != nil {
		t.Fatal(err)
	}
	pod := podWith("p", "a", "b")
	pod.ResourceVersion = "1"
	store.Follow(pod)
	if n := testing.AllocsPerRun(100, func() { store.Follow(pod) }); n != 0 {
		t.Errorf("KO2: %v allocations", n)
	}
}

// KO4, KO7: what changes, goes or is made again is told at once, and read as it is.
func TestChangesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, configMap("c", "one", "1"))
		r, end := newRig(t, a)
		defer end()
		r.Follow(podWith("p", "c", "later"))
		r.want("c", "one")
		r.want("later", "error: "+runtime.ErrNotFound.Error())
		if got := r.changes(); got != "" {
			t.Errorf("KO4: told %s before a change", got)
		}
		for _, step := range []struct {
			do         func()
			told, text string
		}{
			{func() { a.put(configMap("c", "two", "2")) }, "ConfigMap c", "two"},
			{func() { a.remove("c") }, "ConfigMap c", "error: " + runtime.ErrNotFound.Error()},
			{func() {
				again := configMap("c", "three", "2")
				again.UID = "another life"
				a.put(again)
			}, "ConfigMap c", "three"},
		} {
			step.do()
			if got := r.changes(); got != step.told {
				t.Errorf("KO4: told %q, want %q", got, step.told)
			}
			r.want("c", step.text)
		}
		a.put(configMap("later", "here", "1"))
		if got := r.changes(); got != "ConfigMap later" {
			t.Errorf("KO4: told %q of an object that came", got)
		}
		r.want("later", "here")
	})
}

// KO3, KO7: an immutable object is read and no longer watched. A new pod has it read once more, as it
// may have been replaced.
func TestImmutableObjectsAreNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fixed := func(text, version string) *v1.ConfigMap {
			c := configMap("c", text, version)
			c.Immutable = ptr.To(true)
			return c
		}
		a := newAPI(t, fixed("one", "1"))
		r, end := newRig(t, a)
		defer end()
		r.Follow(podWith("p1", "c"))
		r.want("c", "one")
		if _, open := a.seen(); open != 0 {
			t.Errorf("KO3: %d watches", open)
		}
		pass(time.Hour)
		r.Follow(podWith("p1", "c")) // nothing new
		r.want("c", "one")
		if calls, _ := a.seen(); calls != "" {
			t.Errorf("KO3: calls %s", calls)
		}
		a.remove("c")
		a.put(fixed("two", "2"))
		r.Follow(podWith("p2", "c"))
		r.want("c", "two")
		if got := r.changes(); got != "ConfigMap c" {
			t.Errorf("KO7: told %q of the object that replaced another", got)
		}
		a.seen()
		pass(time.Second)
		for i := range 1000 {
			r.Follow(podWith(types.UID(fmt.Sprint("more", i)), "c"))
		}
		r.want("c", "two")
		if calls, open := a.seen(); calls != "list configmaps metadata.name=c" || open != 0 {
			t.Errorf("KO3: %d watches, 1,000 new pods caused %s", open, calls)
		}
		a.refuse(errors.New("connection refused"))
		r.Follow(podWith("p3", "c"))
		r.want("c", "two")
		a.refuse(nil)
		pass(time.Minute)
		if _, open := a.seen(); open != 0 {
			t.Errorf("KO3: %d watches after an outage", open)
		}
	})
}

// KO6: only the API server's word that there is no such object is NotFound; every other failure is
// the reason that a reader gets, and its end is told.
func TestFailuresAreNotAbsence(t *testing.T) {
	group := schema.GroupResource{Resource: "configmaps"}
	for name, refusal := range map[string]error{
		"forbidden":    apierrors.NewForbidden(group, "c", errors.New("no relationship found between node and this object")),
		"unauthorised": apierrors.NewUnauthorized("token expired"),
		"overloaded":   apierrors.NewTooManyRequests("later", 1),
		"broken":       apierrors.NewInternalError(errors.New("etcd is away")),
		"unreachable":  errors.New("dial tcp: connection refused"),
		"no list":      apierrors.NewNotFound(group, ""),
		"a page":       apierrors.NewGenericServerResponse(404, "get", group, "c", "404 page not found", 0, true),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, configMap("c", "one", "1"))
				r, end := newRig(t, a)
				defer end()
				a.refuse(refusal)
				check := func() (err error) {
					t.Helper()
					_, err = r.GetConfigMap(t.Context(), "ns", "c")
					var status apierrors.APIStatus
					if err == nil || cri.IsNotFound(err) || errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonNotFound {
						t.Fatalf("KO6: err %v", err)
					}
					return err
				}
				if name != "no list" {
					_ = check() // of a pod that is not followed, by a get
					a.seen()
				}
				r.Follow(podWith("p", "c"))
				err := check()
				if !strings.Contains(err.Error(), refusal.Error()) {
					t.Errorf("KO6: the error %q does not say %q", err, refusal)
				}
				pass(time.Minute)
				if calls, _ := a.seen(); strings.Count(calls, ",") > 60 {
					t.Errorf("KO6: %d calls in a minute", strings.Count(calls, ","))
				}
				a.refuse(nil)
				pass(time.Minute)
				if got := r.changes(); got != "ConfigMap c" {
					t.Errorf("KO6: told %q once it can be read", got)
				}
				r.want("c", "one")
			})
		})
	}
}

// KO6: what was read stays through an outage of a day, and is as it is afterwards.
func TestOutageKeepsWhatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, configMap("c", "one", "1"))
		r, end := newRig(t, a)
		defer end()
		r.Follow(podWith("p", "c"))
		r.want("c", "one")
		a.refuse(errors.New("connection refused"))
		pass(24 * time.Hour)
		r.want("c", "one")
		r.Follow(podWith("p2", "c"))
		r.want("c", "one")
		a.put(configMap("c", "two", "2"))
		if calls, open := a.seen(); open != 0 || strings.Count(calls, ",") > 24*60*4 {
			t.Errorf("KO6: %d watches and %d calls in a day", open, strings.Count(calls, ","))
		}
		a.refuse(nil)
		pass(time.Minute)
		if got := r.changes(); got != "ConfigMap c" {
			t.Errorf("KO6: told %q of what changed in an outage", got)
		}
		r.want("c", "two")
	})
}

// KO6: a watch of a server that sends bookmarks is given up after 10 min of silence, and the object is read
// without a revision; bookmarks alone keep it.
func TestSilentWatchIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, configMap("c", "one", "1"))
		watches := make(chan *watch.FakeWatcher, 9)
		a.PrependWatchReactor("configmaps", func(clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFake()
			watches <- w
			return true, w, nil
		})
		r, end := newRig(t, a)
		defer end()
		r.Follow(podWith("p", "c"))
		r.want("c", "one")
		first := <-watches
		a.put(configMap("c", "two", "2")) // which the watch does not tell
		pass(29 * time.Minute)
		r.want("c", "one") // a server without bookmarks may be silent for longer
		for range 60 {
			first.Action(watch.Bookmark, configMap("", "", "5"))
			pass(time.Minute)
		}
		if len(watches) != 0 {
			t.Fatal("KO6: a watch that lives was given up")
		}
		r.want("c", "one")
		pass(11 * time.Minute)
		if len(watches) != 1 {
			t.Fatal("KO6: a silent watch is kept")
		}
		r.want("c", "two")
		if got := r.changes(); got != "ConfigMap c" {
			t.Errorf("KO6: told %q", got)
		}
	})
}

// KO6: a watch that has never said anything, as one that began just before a backup was restored, is given
// up after 30 min.
func TestWatchSilentFromItsBeginningIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, configMap("c", "one", "1"))
		a.PrependWatchReactor("configmaps", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, watch.NewFake(), nil
		})
		r, end := newRig(t, a)
		defer end()
		r.Follow(podWith("p", "c"))
		r.want("c", "one")
		a.put(configMap("c", "two", "2")) // which the watch does not tell
		pass(29 * time.Minute)
		r.want("c", "one")
		pass(2 * time.Minute)
		r.want("c", "two")
	})
}

// A reader waits for the answer, and no longer than its context.
func TestReaderWaitsAsLongAsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		silence := make(chan struct{})
		a.PrependReactor("list", "*", hang(silence))
		r, end := newRig(t, a)
		defer end()
		defer close(silence)
		r.Follow(podWith("p", "c"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		_, err := r.GetConfigMap(ctx, "ns", "c")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second || cri.IsNotFound(err) {
			t.Errorf("err %v after %v", err, time.Since(began))
		}
	})
}

// KO4: with a TTL nothing is watched; objects are read when they are wanted and the last reading is
// older, for a new pod at once, and never twice at a time.
func TestTTLReadsWhenWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, configMap("c", "one", "1"))
		r, end := newRig(t, a, func(o *objects.Options) { o.TTL = time.Minute })
		defer end()
		for i := range 100 {
			r.Follow(podWith(types.UID(fmt.Sprint("p", i)), "c", "none"))
		}
		for range 100 {
			r.want("c", "one")
			r.want("none", "error: "+runtime.ErrNotFound.Error())
		}
		if calls, open := a.seen(); calls != "get configmaps c, get configmaps none" || open != 0 {
			t.Errorf("KO4: %d watches, calls %s", open, calls)
		}
		a.put(configMap("c", "two", "2"))
		r.want("c", "one")
		pass(time.Minute)
		r.want("c", "two")
		a.put(configMap("c", "three", "3"))
		pass(time.Second)
		r.Follow(podWith("new", "c"))
		r.want("c", "three")
		a.refuse(errors.New("connection refused"))
		pass(time.Hour)
		r.want("c", "three")
		a.refuse(nil)
		a.seen()
		fixed := configMap("c", "four", "4")
		fixed.Immutable = ptr.To(true)
		a.put(fixed)
		r.want("c", "four")
		pass(time.Hour)
		r.want("c", "four")
		if calls, _ := a.seen(); calls != "get configmaps c" {
			t.Errorf("KO3: an immutable object was read by %s", calls)
		}
	})
}

// KO1: pods that the node no longer has are forgotten; one that it does not have yet stays for a minute.
func TestGonePodsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, present := newAPI(t, configMap("c", "one", "1")), []types.UID{"stays"}
		r, end := newRig(t, a, func(o *objects.Options) { o.Pods = func() []types.UID { return present } })
		defer end()
		r.Follow(podWith("gone", "c"))
		pass(61 * time.Second)
		if _, open := a.seen(); open != 1 {
			t.Errorf("KO1: %d watches; a pod that is new was forgotten", open)
		}
		pass(time.Minute)
		if _, open := a.seen(); open != 0 {
			t.Errorf("KO1: %d watches for a pod that is gone", open)
		}
		r.Follow(podWith("stays", "c"))
		pass(time.Hour)
		if _, open := a.seen(); open != 1 {
			t.Errorf("KO1: %d watches for a pod that stays", open)
		}
	})
}

// KO9: neither logs nor errors have the content of a secret.
func TestSecretsAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", ResourceVersion: "1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
			Data:       map[string][]byte{"key": []byte("hunter2")},
		}
		a := newAPI(t, secret)
		r, end := newRig(t, a)
		pod := podWith("p")
		pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "s"}}
		r.Follow(pod)
		got, err := r.GetSecret(t.Context(), "ns", "s")
		if err != nil || string(got.Data["key"]) != "hunter2" || got.ManagedFields != nil {
			t.Fatalf("%v, err %v", got, err)
		}
		a.refuse(errors.New("connection refused"))
		a.put(&v1.Secret{ObjectMeta: secret.ObjectMeta, Data: map[string][]byte{"key": []byte("hunter3")}})
		_, err = r.GetSecret(t.Context(), "ns", "other")
		pass(time.Hour)
		end()
		if text := fmt.Sprint(err) + r.logs.String(); strings.Contains(text, "hunter") || !strings.Contains(text, "connection refused") {
			t.Errorf("KO9: told %s", text)
		}
	})
}

// A store runs once at a time, reads before and after, and tells all problems of its options.
func TestRunOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := objects.New(objects.Options{TTL: -1}); err == nil || !strings.Contains(err.Error(), "Client") || !strings.Contains(err.Error(), "TTL") {
			t.Errorf("err %v", err)
		}
		a := newAPI(t, configMap("c", "one", "1"))
		r, end := newRig(t, a)
		if err := r.Run(t.Context(), nil); !errors.Is(err, objects.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		r.Follow(podWith("p", "c"))
		end()
		r.want("c", "one")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx, nil) }()
		if _, open := a.seen(); open != 1 {
			t.Errorf("%d watches in the second run", open)
		}
		a.put(configMap("c", "two", "2"))
		synctest.Wait()
		r.want("c", "two")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// KO3, KO6, KO7: an API server that does not stream lists, and whose cache is behind, does not make a new pod start with what
// an object was before.
func TestFirstReadIsNotFromACacheThatIsBehind(t *testing.T) {
	for _, immutable := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			old, now := configMap("c", "old", "1"), configMap("c", "new", "2")
			old.Immutable, now.Immutable = &immutable, &immutable
			a := newAPI(t, now)
			a.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, k8sruntime.Object, error) {
				if action.(clienttesting.ListActionImpl).ListOptions.ResourceVersion != "0" {
					return false, nil, nil
				}
				return true, &v1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1.ConfigMap{*old}}, nil
			})
			r, end := newRig(t, a)
			defer end()
			r.Follow(podWith("p", "c"))
			r.want("c", "new")
			pass(time.Hour)
			r.want("c", "new")
		})
	}
}
