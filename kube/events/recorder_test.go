package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// rig is a recorder that runs in a bubble before a server that can fail.
type rig struct {
	*Recorder
	t      *testing.T
	client *fake.Clientset
	end    func()

	mu sync.Mutex
	// fault, if not nil, answers in place of the server.
	fault func(action clienttesting.Action) error
	calls int
}

func (x *rig) setFault(f func(action clienttesting.Action) error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fault = f
}

func (x *rig) called() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls
}

// waits counts the events in the queue.
func (x *rig) waits() int {
	x.queue.mu.Lock()
	defer x.queue.mu.Unlock()
	return len(x.queue.waiting)
}

// startLogged starts a recorder; logged returns what it has logged, a line per entry.
func startLogged(t *testing.T) (x *rig, logged func() string) {
	var mu sync.Mutex
	lines := ""
	x = start(t, func(o *Options) {
		o.Logger = funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines += args + "\n"
		}, funcr.Options{})
	})
	return x, func() string { mu.Lock(); defer mu.Unlock(); return lines }
}

func start(t *testing.T, edits ...func(*Options)) *rig {
	t.Helper()
	x := &rig{t: t, client: fake.NewClientset()}
	x.client.PrependReactor("*", "events", func(action clienttesting.Action) (bool, apiruntime.Object, error) {
		if action.GetVerb() == "list" {
			return false, nil, nil
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.calls++
		if x.fault == nil {
			return false, nil, nil
		}
		err := x.fault(action)
		return err != nil, nil, err
	})
	o := Options{Client: x.client, Node: "n1"}
	for _, edit := range edits {
		edit(&o)
	}
	var err error
	if x.Recorder, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	x.end = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(x.end)
	return x
}

// has returns what the server has, as "name reason message xcount", sorted.
func (x *rig) has() []string {
	x.t.Helper()
	synctest.Wait()
	list, err := x.client.CoreV1().Events(metav1.NamespaceAll).List(context.WithoutCancel(x.t.Context()), metav1.ListOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	out := []string{}
	for i := range list.Items {
		e := &list.Items[i]
		out = append(out, fmt.Sprintf("%s %s %s x%d", e.InvolvedObject.Name, e.Reason, e.Message, e.Count))
	}
	slices.Sort(out)
	return out
}

func (x *rig) want(what string, want ...string) {
	x.t.Helper()
	if got := x.has(); !slices.Equal(got, want) {
		x.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func about(name string) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}
}

// TestEvent: KV4. What an event says, and where it is kept.
func TestEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t)
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}}
		x.Eventf(pod, v1.EventTypeWarning, "Failed", "no %s", "image")
		x.Eventf(&v1.ObjectReference{Kind: "Node", Name: "n1", UID: "n1"}, v1.EventTypeNormal, "NodeReady", "it is")
		x.Eventf(pod, "Terrible", "Failed", "of no type")
		x.Eventf(nil, v1.EventTypeNormal, "Failed", "about nothing")
		x.want("all", "n1 NodeReady it is x1", "web Failed no image x1")
		list, err := x.client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatal(list, err)
		}
		e := &list.Items[0]
		if e.InvolvedObject.UID != "u1" || e.InvolvedObject.Kind != "Pod" || e.Type != v1.EventTypeWarning || e.Source != (v1.EventSource{Component: "podwright", Host: "n1"}) ||
			e.ReportingController != "podwright" || e.ReportingInstance != "n1" || !e.FirstTimestamp.Equal(&e.LastTimestamp) || e.FirstTimestamp.IsZero() {
			t.Errorf("%+v", e)
		}
		if list, _ := x.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{}); len(list.Items) != 1 {
			t.Errorf("about the node: %v", list)
		}
	})
}

// TestEqualEventsAreCounted: KV4. An event that repeats is one object with a count; when its
// time to live is over it is made again.
func TestEqualEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t)
		for range 3 {
			x.Eventf(about("web"), v1.EventTypeWarning, "BackOff", "crashes")
			<-time.After(time.Minute)
		}
		x.Eventf(about("db"), v1.EventTypeWarning, "BackOff", "crashes")
		x.want("counted", "db BackOff crashes x1", "web BackOff crashes x3")
		list, _ := x.client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		for i := range list.Items {
			if err := x.client.CoreV1().Events("shop").Delete(t.Context(), list.Items[i].Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		x.Eventf(about("web"), v1.EventTypeWarning, "BackOff", "crashes")
		x.want("made again", "web BackOff crashes x4")
	})
}

// TestNoisyPodDoesNotSilenceOthers: KV4. An object has 25 events at once and one in 5 min
// after that, and takes no other object's place in the queue.
func TestNoisyPodDoesNotSilenceOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, func(o *Options) { o.MaxQueued = 30 })
		x.setFault(func(clienttesting.Action) error { return errors.New("no route") })
		x.Eventf(about("quiet"), v1.EventTypeNormal, "Started", "first")
		for i := range 10_000 {
			x.Eventf(about("noisy"), v1.EventTypeWarning, fmt.Sprint("Reason", i), "again")
		}
		x.Eventf(about("quiet"), v1.EventTypeNormal, "Stopped", "last")
		x.setFault(nil)
		<-time.After(time.Minute)
		got := x.has()
		if len(got) != 27 || !slices.Contains(got, "quiet Started first x1") || !slices.Contains(got, "quiet Stopped last x1") {
			t.Errorf("%d events: %v", len(got), got)
		}
		<-time.After(5 * time.Minute)
		x.Eventf(about("noisy"), v1.EventTypeWarning, "Later", "again")
		if n := len(x.has()); n != 28 {
			t.Errorf("%d events after 5 min", n)
		}
	})
}

// TestRepetitionsOfAnObjectAreBounded: KV4. A pod that has had ever new texts for a day does not repeat them all.
func TestRepetitionsOfAnObjectAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t)
		const texts = 288
		for i := range texts {
			x.Eventf(about("web"), v1.EventTypeWarning, "Unhealthy", "%d", i)
			<-time.After(5 * time.Minute)
		}
		before := x.called()
		for range 10 {
			for i := range texts {
				x.Eventf(about("web"), v1.EventTypeWarning, "Unhealthy", "%d", i)
			}
			<-time.After(time.Minute)
		}
		if n := x.called() - before; n > 100+10 {
			t.Errorf("%d repetitions in 10 min", n)
		}
	})
}

// TestCrashingCrowdKeepsRoomForNews: KV4. Many pods with two containers crash for 5 h, each with an event a minute and three more at each of its starts.
// The server has one object per event, which never gets old, and few calls; what then happens for the first time is not lost.
func TestCrashingCrowdKeepsRoomForNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, logged := startLogged(t)
		const crowd, minutes = 20, 5 * 60
		for minute := range minutes {
			for i := range crowd {
				for _, container := range []string{"a", "b"} {
					p := about(fmt.Sprint("pod-", i))
					if minute%5 == 0 {
						for _, reason := range []string{"Pulled", "Created", "Started"} {
							x.Eventf(p, v1.EventTypeNormal, reason, "%s", container)
						}
					}
					x.Eventf(p, v1.EventTypeWarning, "BackOff", "%s", container)
				}
			}
			<-time.After(time.Minute)
			synctest.Wait()
			if minute == 0 || minute%20 > 0 {
				continue
			}
			list, err := x.client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 8*crowd {
				t.Fatalf("after %d min %d objects, %v", minute, len(list.Items), err)
			}
			for i := range list.Items {
				if e := &list.Items[i]; time.Since(e.LastTimestamp.Time) > 45*time.Minute {
					t.Fatalf("after %d min the last %s is of %v", minute, e.Reason, e.LastTimestamp)
				}
			}
		}
		if n := x.called(); n > 8*crowd*(5+5*2) {
			t.Errorf("%d calls in 5 h", n)
		}
		for i := range crowd {
			x.Eventf(about(fmt.Sprint("pod-", i)), v1.EventTypeWarning, "Evicted", "no disk")
			x.Eventf(about(fmt.Sprint("pod-", i)), v1.EventTypeNormal, "Killing", "goes")
		}
		if n := len(x.has()); n != 10*crowd {
			t.Errorf("%d objects after what is new", n)
		}
		if text := logged(); text != "" {
			t.Error(text)
		}
	})
}

// TestOutageIsBounded: KV4. In an outage of a day a bounded number of events waits, the newest
// ones; after it they come in order, with the times at which they happened.
func TestOutageIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, func(o *Options) { o.MaxQueued = 100 })
		x.setFault(func(clienttesting.Action) error { return errors.New("no route") })
		for i := range 24 * 60 {
			x.Eventf(about(fmt.Sprint("pod-", i)), v1.EventTypeNormal, "Started", "it does")
			<-time.After(time.Minute)
		}
		synctest.Wait()
		if n := x.waits(); n != 100 {
			t.Errorf("%d events wait", n)
		}
		if x.called() > 24*60*2+10 {
			t.Errorf("%d calls in a day", x.calls)
		}
		x.setFault(nil)
		<-time.After(time.Minute)
		if got := x.has(); len(got) != 100 || !slices.Contains(got, "pod-1439 Started it does x1") || !slices.Contains(got, "pod-1340 Started it does x1") {
			t.Errorf("%d events after the outage: %v", len(got), got)
		}
		list, _ := x.client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		for i := range list.Items {
			if e := &list.Items[i]; e.InvolvedObject.Name == "pod-1400" && time.Since(e.FirstTimestamp.Time) < 39*time.Minute {
				t.Errorf("%s is dated %v", e.InvolvedObject.Name, e.FirstTimestamp)
			}
		}
	})
}

// TestRetry: KV4. A server that is away or busy is asked again, one that fails some times; a refusal is final.
func TestRetry(t *testing.T) {
	resource := schema.GroupResource{Resource: "events"}
	page := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "post", resource, "", "a page", 0, true)
	}
	for name, test := range map[string]struct {
		err   error
		pause time.Duration
		want  judgment
	}{
		"no route":          {errors.New("no route"), 4 * time.Second, away},
		"too many requests": {apierrors.NewTooManyRequests("slow down", 60), time.Minute, away},
		"server away":       {apierrors.NewServiceUnavailable("away"), 4 * time.Second, away},
		"expired":           {apierrors.NewUnauthorized("expired"), 4 * time.Second, away},
		"bad gateway":       {page(502), 4 * time.Second, away},
		"gateway timeout":   {page(504), 4 * time.Second, away},
		"internal error":    {apierrors.NewInternalError(errors.New("etcd")), 4 * time.Second, failed},
		"server timeout":    {apierrors.NewServerTimeout(resource, "create", 60), time.Minute, failed},
		"timeout":           {apierrors.NewTimeoutError("webhook", 0), 4 * time.Second, failed},
		"page":              {page(404), 4 * time.Second, failed},
		"blocked by page":   {page(403), 4 * time.Second, failed},
		"forbidden":         {apierrors.NewForbidden(resource, "e", nil), 4 * time.Second, refused},
		"exists":            {apierrors.NewAlreadyExists(resource, "e"), 4 * time.Second, refused},
		"no namespace":      {apierrors.NewNotFound(resource, "shop"), 4 * time.Second, refused},
		"invalid":           {apierrors.NewInvalid(schema.GroupKind{}, "e", nil), 4 * time.Second, refused},
	} {
		if got, pause := judge(test.err), pauseAfter(test.err, 3); got != test.want || pause != test.pause {
			t.Errorf("%s: %d, %v", name, got, pause)
		}
	}
	if pause := pauseAfter(errors.New("no route"), 1000); pause != retryMax {
		t.Errorf("after many failures: %v", pause)
	}
}

// TestFailingNamespaceHoldsNoOther: KV4. A namespace whose events the server fails to store, because its admission webhook is
// down, holds up no other. What is dropped after some tries is told; the rest comes in order once the webhook is back.
func TestFailingNamespaceHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, logged := startLogged(t)
		x.setFault(func(a clienttesting.Action) error {
			if a.GetNamespace() == "shop" {
				return apierrors.NewInternalError(errors.New("failed calling webhook: connection refused"))
			}
			return nil
		})
		for i := range 10 {
			x.Eventf(about(fmt.Sprint("pod-", i)), v1.EventTypeWarning, "BackOff", "crashes")
		}
		other := &v1.ObjectReference{Kind: "Pod", Namespace: "bank", Name: "db", UID: "u"}
		x.Eventf(other, v1.EventTypeWarning, "Failed", "no image")
		x.want("at once", "db Failed no image x1")
		for range 10 {
			<-time.After(time.Minute)
			x.Eventf(other, v1.EventTypeWarning, "Failed", "no image")
		}
		if n := x.called(); n < 20 || n > 10*2+20 {
			t.Errorf("%d calls in 10 min", n)
		}
		text := logged()
		dropped := strings.Count(text, `"dropped"=1`)
		if dropped < 2 || dropped > 6 {
			t.Errorf("%d events are dropped: %s", dropped, text)
		}
		x.setFault(nil)
		<-time.After(time.Minute)
		got := x.has()
		if len(got) != 1+10-dropped || !slices.Contains(got, "pod-9 BackOff crashes x1") || slices.Contains(got, "pod-0 BackOff crashes x1") {
			t.Errorf("once the webhook is back: %q", got)
		}
		before := x.called()
		x.Eventf(about("web"), v1.EventTypeNormal, "Started", "it does")
		synctest.Wait()
		if len(x.held) != 0 || x.called() != before+1 {
			t.Errorf("afterwards %v is held, %d calls", x.held, x.called()-before)
		}
	})
}

// TestFailureThatPasses: KV4. An event that the server fails to store for a moment comes after it, also at the end of Run; a
// namespace without events is not remembered.
func TestFailureThatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t)
		fails := func(clienttesting.Action) error { return apierrors.NewInternalError(errors.New("etcd")) }
		x.setFault(fails)
		x.Eventf(about("web"), v1.EventTypeNormal, "Started", "it does")
		synctest.Wait()
		x.setFault(nil)
		<-time.After(2 * time.Second)
		x.want("later", "web Started it does x1")
		x.setFault(fails)
		x.Eventf(about("web"), v1.EventTypeNormal, "Lost", "it is")
		<-time.After(2 * time.Hour)
		if n := x.called(); n < 2+10 || n > 2+30 {
			t.Errorf("%d calls", n)
		}
		x.setFault(nil)
		x.Eventf(&v1.ObjectReference{Kind: "Pod", Namespace: "bank", Name: "db", UID: "u"}, v1.EventTypeNormal, "Started", "it does")
		synctest.Wait()
		if len(x.held) != 0 {
			t.Errorf("held are %v", x.held)
		}
		x.setFault(fails)
		x.Eventf(about("web"), v1.EventTypeNormal, "Stopped", "it did")
		synctest.Wait()
		x.setFault(nil)
		x.end()
		if got := x.has(); !slices.Contains(got, "web Stopped it did x1") {
			t.Errorf("at the end: %q", got)
		}
	})
}

// in is an object of a namespace.
func in(namespace, name string) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}
}

// TestServerThatFailsLosesNoEvent: KV4. A server that fails everything for less than 10 min is asked now and then, and all events
// come afterwards; the limit counts those that it has failed to store.
func TestServerThatFailsLosesNoEvent(t *testing.T) {
	for _, outage := range []time.Duration{30 * time.Second, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			x := start(t)
			x.setFault(func(clienttesting.Action) error {
				return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
			})
			for i := range 100 {
				x.Eventf(in(fmt.Sprint("ns", i), "web"), v1.EventTypeWarning, "Bad", "x")
			}
			<-time.After(outage)
			if n, most := x.called(), 10+int(outage/retryMax); n > most {
				t.Errorf("%d calls in %s, at most %d", n, outage, most)
			}
			x.setFault(nil)
			<-time.After(time.Minute + 10*time.Second)
			if n := len(x.has()); n != 100 {
				t.Errorf("after %s %d of 100 events come", outage, n)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		x := start(t, func(o *Options) { o.MaxQueued = 10 })
		x.setFault(func(clienttesting.Action) error { return apierrors.NewInternalError(errors.New("etcd")) })
		for i := range 200 {
			x.Eventf(in(fmt.Sprint("ns", i), "web"), v1.EventTypeWarning, "Bad", "x")
			<-time.After(5 * time.Second)
		}
		if n := x.waits(); n != 10 || x.called() > 60 {
			t.Errorf("%d events wait, %d calls", n, x.called())
		}
		x.setFault(nil)
		<-time.After(time.Minute)
		if got := x.has(); len(got) < 10 || len(got) > 11 {
			t.Errorf("%d events come", len(got))
		}
	})
}

// TestSlowWebhooksHoldNoOther: KV4. Namespaces whose admission webhooks time out hold up the event of another one only for a
// call and a pause once they are known to fail, however many they are, and take turns.
func TestSlowWebhooksHoldNoOther(t *testing.T) {
	for _, n := range []int{1, 2, 5, 30} {
		synctest.Test(t, func(t *testing.T) {
			x := start(t)
			arrived, tried := time.Time{}, map[string]bool{}
			x.setFault(func(a clienttesting.Action) error {
				if a.GetNamespace() == "bank" {
					arrived = time.Now()
					return nil
				}
				tried[a.GetNamespace()] = true
				x.mu.Unlock()
				defer x.mu.Lock()
				<-time.After(30 * time.Second)
				return apierrors.NewInternalError(errors.New("failed calling webhook: deadline exceeded"))
			})
			for i := range 3 {
				for shop := range n {
					for j := range 5 {
						x.Eventf(in(fmt.Sprint("shop", shop), fmt.Sprint("web-", j)), v1.EventTypeWarning, "Bad", "%d", i)
					}
				}
				<-time.After(time.Duration(i%2) * 5 * time.Minute)
				began := time.Now()
				x.Eventf(in("bank", fmt.Sprint("db-", i)), v1.EventTypeWarning, "Good", "x")
				<-time.After(30 * time.Minute)
				most := 70 * time.Second
				if i == 0 { // each of them is tried once before it is known to fail
					most *= time.Duration(n)
				}
				if late := arrived.Sub(began); late < 0 || late > most {
					t.Errorf("%d namespaces with slow webhooks: the event of another one comes after %s", n, late)
				}
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			if x.fault = nil; len(tried) != n {
				t.Errorf("%d of %d namespaces had a turn", len(tried), n)
			}
		})
	}
}

// TestNodesSendAgainApart: KV4. Nodes that fail together do not send again together.
func TestNodesSendAgainApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		moments, calls, began := map[time.Duration]bool{}, 0, time.Now()
		for i := range 100 {
			x := start(t, func(o *Options) { o.Node = fmt.Sprint("edge-", i) })
			x.setFault(func(clienttesting.Action) error {
				mu.Lock()
				defer mu.Unlock()
				moments[time.Since(began)/(100*time.Millisecond)] = true
				calls++
				return errors.New("no route")
			})
			x.Eventf(about("web"), v1.EventTypeNormal, "Started", "it does")
		}
		<-time.After(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if len(moments) < calls/4 {
			t.Errorf("%d calls in an hour fall into %d slots of 100 ms", calls, len(moments))
		}
	})
}

// TestRefusedEventHoldsNoOther: KV4.
func TestRefusedEventHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t)
		x.setFault(func(action clienttesting.Action) error {
			if create, ok := action.(clienttesting.CreateAction); ok && create.GetObject().(*v1.Event).Reason == "Bad" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "e", nil)
			}
			return nil
		})
		x.Eventf(about("web"), v1.EventTypeNormal, "Bad", "refused")
		x.Eventf(about("web"), v1.EventTypeNormal, "Good", "taken")
		x.want("after a refusal", "web Good taken x1")
		if n := x.called(); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestRunEndsWithWhatWaits: KV4. Run sends what waits before it returns, and does not wait
// for a server that is away.
func TestRunEndsWithWhatWaits(t *testing.T) {
	t.Run("the server is there", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := start(t)
			x.setFault(func(clienttesting.Action) error { return errors.New("no route") })
			for i := range 10 {
				x.Eventf(about(fmt.Sprint("pod-", i)), v1.EventTypeNormal, "Stopped", "it did")
			}
			synctest.Wait()
			x.setFault(nil)
			x.end()
			if got := x.has(); len(got) != 10 {
				t.Errorf("%d events: %v", len(got), got)
			}
		})
	})
	t.Run("the server is away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := start(t)
			x.setFault(func(clienttesting.Action) error { return errors.New("no route") })
			x.Eventf(about("web"), v1.EventTypeNormal, "Stopped", "it did")
			synctest.Wait()
			began := time.Now()
			x.end()
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			x.Eventf(about("web"), v1.EventTypeNormal, "Late", "after the end") // does not block
		})
	})
}

// TestOptions: all that is wrong is said at once.
func TestOptions(t *testing.T) {
	_, err := New(Options{MaxQueued: -1})
	for _, field := range []string{"Client", "Node", "MaxQueued"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("nothing about %s: %v", field, err)
		}
	}
}
