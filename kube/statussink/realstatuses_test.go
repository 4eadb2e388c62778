//go:build apiserver

package statussink

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/apitest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// TestAPIServerStatuses: KT1-KT5 on a real API server, as a node under NodeRestriction (KW4).
func TestAPIServerStatuses(t *testing.T) {
	_, operator, node := realCluster(t, apitest.Options{})
	t.Run("refused patches (KT2)", func(t *testing.T) { realRefusals(t, operator, node) })
	t.Run("an end replaces no end (KT2)", func(t *testing.T) { realEnds(t, operator, node) })
	t.Run("deletion (KT4)", func(t *testing.T) { realDeletion(t, operator, node) })
	t.Run("mirror pods (KT9)", func(t *testing.T) { realMirrors(t, operator, node) })
	t.Run("conditions of 1,000 writers (KT3, KT5)", func(t *testing.T) { realConditions(t, operator, node) })
}

func realRefusals(t *testing.T, operator, node *real) {
	w := &watched{}
	sink := realSink(t, node, w.lookup)
	pod := node.known(t, operator.create(t, "refused"))
	w.show(pod)
	base := &pod.Status
	try := func(next v1.PodStatus) (status.StoreResult, error) {
		return sink.Store(t.Context(), status.Update{PodRef: ref(pod), Base: base, Status: &next})
	}
	if got, err := try(phase(v1.PodRunning)); err != nil || got != status.Stored {
		t.Errorf("the first: %v, %v", got, err)
	}
	if got, err := try(v1.PodStatus{PodIP: "bad", PodIPs: []v1.PodIP{{IP: "bad"}}}); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid status: %v, %v", got, err)
	}
	operator.remove(t, "refused")
	delete(w.pods, pod.UID)
	if got, err := sink.ReadPod(t.Context(), ref(pod)); err != nil || got != nil {
		t.Errorf("read after the deletion: %v, %v", got, err)
	}
	if got, err := try(phase(v1.PodRunning)); err != nil || got != status.Gone {
		t.Errorf("deleted: %v, %v", got, err)
	}
	next := node.known(t, operator.create(t, "refused"))
	if got, err := try(phase(v1.PodRunning)); err != nil || got != status.Recreated {
		t.Errorf("made again: %v, %v", got, err)
	}
	got, err := operator.CoreV1().Pods("default").Get(t.Context(), "refused", metav1.GetOptions{})
	if err != nil || got.ResourceVersion != next.ResourceVersion {
		t.Errorf("the next life was written to: %v, %v", got, err)
	}
	if err := sink.DeletePod(t.Context(), ref(pod)); err != nil {
		t.Errorf("the old life is deleted: %v", err)
	}
	if _, err := operator.CoreV1().Pods("default").Get(t.Context(), "refused", metav1.GetOptions{}); err != nil {
		t.Errorf("the next life: %v", err)
	}
}

func realEnds(t *testing.T, operator, node *real) {
	w := &watched{}
	sink := realSink(t, node, w.lookup)
	pod := node.known(t, operator.create(t, "ends"))
	w.show(pod)
	if err := operator.patch(t.Context(), "ends", `{"status":{"phase":"Failed"}}`); err != nil {
		t.Fatal(err)
	}
	if got := store(t, sink, pod, phase(v1.PodSucceeded)); got != status.Conflict {
		t.Errorf("%v, want a conflict", got)
	}
	if base, err := sink.ReadPod(t.Context(), ref(pod)); err != nil || base.Status.Phase != v1.PodFailed {
		t.Errorf("read after it: %v, %v", base, err)
	}
}

func realDeletion(t *testing.T, operator, node *real) {
	sink := realSink(t, node, nil)
	pod := node.known(t, operator.create(t, "deleted"))
	for range 2 { // the second finds nothing
		if err := sink.DeletePod(t.Context(), ref(pod)); err != nil {
			t.Error(err)
		}
	}
	if _, err := operator.CoreV1().Pods("default").Get(t.Context(), "deleted", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
}

func realConditions(t *testing.T, operator, node *real) {
	const writes, kinds = 1000, 50
	pod := node.known(t, operator.create(t, "crowded"))
	w := watch(t, node)
	sink := realSink(t, node, w.lookup)
	reads, _ := node.count("GET")
	var others sync.WaitGroup
	defer others.Wait()
	var left atomic.Int32
	left.Store(2)
	for worker := range 2 {
		others.Go(func() {
			defer left.Add(-1)
			for i := worker; i < writes; i += 2 {
				patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"example.com/%d","status":"True","message":"%d"}]}}`, i%kinds, i)
				if err := retried(func() error { return operator.patch(t.Context(), "crowded", patch) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	began, ours, conflicts := time.Now(), 0, 0
	for left.Load() > 0 {
		base, err := sink.ReadPod(t.Context(), ref(pod))
		if err != nil {
			t.Fatal(err)
		}
		next := base.Status.DeepCopy()
		next.Message = fmt.Sprint(ours)
		setReady(next, ours%2 == 0)
		got, err := sink.Store(t.Context(), status.Update{PodRef: ref(pod), Base: &base.Status, Status: next})
		switch {
		case err == nil && got == status.Stored:
			ours++
		case err == nil && got == status.Conflict:
			conflicts++
		default:
			t.Fatalf("write %d: %v, %v", ours, got, err)
		}
	}
	all, _ := node.count("GET")
	t.Logf("%d writes of ours between %d of others in %v, %d conflicts, %d reads", ours, writes, time.Since(began).Round(time.Millisecond), conflicts, all-reads)
	got, err := operator.CoreV1().Pods("default").Get(t.Context(), "crowded", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[v1.PodConditionType]string{}
	for _, c := range got.Status.Conditions {
		there[c.Type] = c.Message
	}
	for kind := range kinds {
		kind, want := v1.PodConditionType(fmt.Sprint("example.com/", kind)), fmt.Sprint(writes-kinds+kind)
		if there[kind] != want {
			t.Errorf("%s has %q, want %s", kind, there[kind], want)
		}
	}
	if _, ok := there[v1.PodReady]; !ok || ours < 100 {
		t.Errorf("Ready: %t, %d writes", ok, ours)
	}
	// The watch may not show the pod yet for the first, and a conflict is read twice.
	if all-reads > 1+2*conflicts {
		t.Errorf("%d reads", all-reads)
	}
}

// retried makes a call until it meets no conflict.
func retried(f func() error) error {
	for {
		if err := f(); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func setReady(s *v1.PodStatus, ready bool) {
	value := v1.ConditionFalse
	if ready {
		value = v1.ConditionTrue
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == v1.PodReady {
			s.Conditions[i].Status = value
			return
		}
	}
	s.Conditions = append(s.Conditions, v1.PodCondition{Type: v1.PodReady, Status: value})
}

// TestAPIServerBusy: KT7. A real API server that refuses calls for load hears nothing
// of the sink for as long as it asked for.
func TestAPIServerBusy(t *testing.T) {
	cluster, operator, node := realCluster(t, apitest.Options{Args: []string{
		"--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=1",
	}})
	pod := operator.create(t, "web")
	ctx, cancel := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	for range 32 {
		client := newReal(t, cluster.User("crowd", "system:serviceaccounts"))
		crowd.Go(func() {
			for ctx.Err() == nil {
				_ = client.CoreV1().RESTClient().Patch(types.StrategicMergePatchType).Namespace("default").Resource("pods").Name("web").
					Body([]byte(`{"metadata":{"labels":{"a":"b"}}}`)).MaxRetries(0).Do(ctx).Error()
			}
		})
	}
	sink := realSink(t, node, nil)
	limited, stop := context.WithTimeout(t.Context(), patience.Of(time.Minute))
	defer stop()
	stored := 0
	for i := 0; node.tooMany < 5 && limited.Err() == nil; i++ {
		base, err := sink.ReadPod(limited, ref(pod))
		if err != nil {
			continue
		}
		next := base.Status.DeepCopy()
		next.Message = fmt.Sprint(i)
		if _, err := sink.Store(limited, status.Update{PodRef: ref(pod), Base: &base.Status, Status: next}); err == nil {
			stored++
		}
	}
	cancel()
	crowd.Wait()
	t.Logf("%d refusals, %d stored; the soonest call after a refusal: %v", node.tooMany, stored, node.soonest)
	if node.tooMany < 5 || node.soonest < time.Second {
		t.Error("want 5 refusals, and a pause of a second after each")
	}
}

// TestAPIServerCrowd: KW6, KT4, KT5. 200 pods of a real API server are shown running with at most
// two writes each and no read, and go with one deletion each.
func TestAPIServerCrowd(t *testing.T) {
	cluster, operator, _ := realCluster(t, apitest.Options{})
	rt := fake.New(fake.Options{})
	a, client := realAgent(t, cluster.Node(nodeName), rt)
	a.start()
	const n = 200
	for i := range n {
		operator.create(t, fmt.Sprint("p", i))
	}
	began := time.Now()
	in := func(count func(*v1.Pod) bool) (all, some int) {
		list, err := operator.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if count(&list.Items[i]) {
				some++
			}
		}
		return len(list.Items), some
	}
	running := func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning }
	a.within(2*time.Minute, "all shown running", func() bool { _, r := in(running); return r == n })
	writes, most := client().count("PATCH")
	t.Logf("%d pods shown running %v after the last was created: %d writes, at most %d for one", n, time.Since(began).Round(time.Millisecond), writes, most)
	if most > 2 {
		t.Errorf("%d writes for one pod", most)
	}
	if reads, _ := client().count("GET namespaces"); reads > 0 {
		t.Errorf("%d pods were read", reads)
	}
	if err := operator.CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	a.within(2*time.Minute, "all gone", func() bool { all, _ := in(running); return all == 0 })
	a.stop()
	deletions, most := client().count("DELETE")
	if deletions != n || most != 1 {
		t.Errorf("%d deletions, at most %d of one", deletions, most)
	}
}

// TestAPIServerOutage: KT6. The API server is killed while a pod ends, and the agent twice.
func TestAPIServerOutage(t *testing.T) {
	cluster, operator, _ := realCluster(t, apitest.Options{})
	rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
		return fake.Script{Exit: &fake.Exit{After: 8 * time.Second, Code: 42}}
	}})
	a, client := realAgent(t, cluster.Node(nodeName), rt)
	a.start()
	operator.create(t, "web")
	get := func() *v1.Pod {
		pod, err := operator.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return pod
	}
	a.within(30*time.Second, "running", func() bool { return get().Status.Phase == v1.PodRunning })
	if err := cluster.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	a.within(30*time.Second, "the container's end", func() bool {
		return rt.Running(rt.Calls(fake.Match{Method: fake.RunPodSandbox})[0].PodUID, "main") == 0
	})
	for range 2 {
		if err := timing.Sleep(t.Context(), clock.RealClock{}, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		a.kill()
		a.start()
	}
	if err := cluster.APIServer.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.within(time.Minute, "the exit code", func() bool {
		pod := get()
		return pod != nil && pod.Status.Phase == v1.PodFailed && pod.Status.ContainerStatuses[0].State.Terminated.ExitCode == 42
	})
	if err := operator.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.within(time.Minute, "the pod gone", func() bool {
		_, err := operator.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	a.stop()
	if n, _ := client().count("DELETE"); n > 1 {
		t.Errorf("%d deletions", n)
	}
	if n := len(rt.Calls(fake.Match{Method: fake.StartContainer})); n != 1 {
		t.Errorf("%d starts", n)
	}
}
