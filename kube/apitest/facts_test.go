//go:build apiserver

package apitest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/internal/timing"
)

const nodeName = "edge-1"

// client returns one that leaves no connection behind.
func client(t *testing.T, of func() *kubernetes.Clientset) *kubernetes.Clientset {
	t.Helper()
	c := of()
	t.Cleanup(func() { closeIdle(c) })
	return c
}

func admin(t *testing.T, c *Cluster) *kubernetes.Clientset {
	return client(t, func() *kubernetes.Clientset { return kubernetes.NewForConfigOrDie(c.Admin()) })
}

func agent(t *testing.T, c *Cluster) *kubernetes.Clientset {
	return client(t, func() *kubernetes.Clientset { return kubernetes.NewForConfigOrDie(c.Node(nodeName)) })
}

func newPod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       v1.PodSpec{NodeName: nodeName, Containers: []v1.Container{{Name: "app", Image: "app:1"}}},
	}
}

func mustCreatePod(ctx context.Context, t *testing.T, c *kubernetes.Clientset, pod *v1.Pod) *v1.Pod {
	t.Helper()
	made, err := c.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestAPIServerFacts are what the packages of kube take for granted of a real API server.
func TestAPIServerFacts(t *testing.T) {
	began := time.Now()
	c := Start(t, Options{})
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))
	ctx := t.Context()
	operator, node := admin(t, c), agent(t, c)
	if _, err := node.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := mustCreatePod(ctx, t, operator, newPod("facts"))
	patch := func(uid types.UID, name string) error {
		data := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"message":"hello"}}`, uid)
		_, err := node.CoreV1().Pods("default").Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
		return err
	}
	tokenFor := func(audiences ...string) error {
		_, err := node.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: ptr.To(int64(600)), BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
			}},
		}, metav1.CreateOptions{})
		return err
	}
	mirror := newPod("mirror")
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
	owner, err := node.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: nodeName, UID: owner.UID, Controller: ptr.To(true)}}
	for _, fact := range []struct {
		name string
		do   func() error
		is   func(error) bool
	}{
		{"status patch of this life", func() error { return patch(pod.UID, "facts") }, isNil},
		{"status patch with the UID of another life: 422", func() error { return patch("other", "facts") }, apierrors.IsInvalid},
		{"status patch of a missing pod: 404", func() error { return patch("other", "missing") }, apierrors.IsNotFound},
		{"delete with the UID of another life: 409", func() error {
			return node.CoreV1().Pods("default").Delete(ctx, "facts", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")})
		}, apierrors.IsConflict},
		{"token without audiences, once the node of the pod is known", func() error {
			patience.Within(t, 20*time.Second, "a token", func() error { return tokenFor() })
			return nil
		}, isNil},
		{"token for an audience that the pod does not name: 403", func() error { return tokenFor("other") }, apierrors.IsForbidden},
		{"a node creates a mirror pod", func() error {
			_, err := node.CoreV1().Pods("default").Create(ctx, mirror, metav1.CreateOptions{})
			return err
		}, isNil},
		{"a node creates an ordinary pod: 403", func() error {
			_, err := node.CoreV1().Pods("default").Create(ctx, newPod("ordinary"), metav1.CreateOptions{})
			return err
		}, apierrors.IsForbidden},
		{"a list from a revision to come: 504", func() error {
			return operator.CoreV1().RESTClient().Get().Resource("pods").MaxRetries(0).
				Param("resourceVersion", "100000000").Param("resourceVersionMatch", "NotOlderThan").Do(ctx).Error()
		}, func(err error) bool {
			return apierrors.IsTimeout(err) && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
		}},
		{"a node reads another Node: 403", func() error {
			_, err := node.CoreV1().Nodes().Get(ctx, "another", metav1.GetOptions{})
			return err
		}, apierrors.IsForbidden},
		{"an expired certificate: 401", func() error {
			expired := client(t, func() *kubernetes.Clientset {
				return kubernetes.NewForConfigOrDie(c.Expired("system:node:"+nodeName, "system:nodes"))
			})
			_, err := expired.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
			return err
		}, apierrors.IsUnauthorized},
	} {
		if err := fact.do(); !fact.is(err) {
			t.Errorf("%s: %v", fact.name, err)
		}
	}
}

func isNil(err error) bool { return err == nil }

// TestAPIServerRewindSilencesWatches: after a backup is restored, a watch from a revision of before
// may stay open and empty (KS9).
func TestAPIServerRewindSilencesWatches(t *testing.T) {
	ctx := t.Context()
	c := Start(t, Options{})
	operator := admin(t, c)
	backup := filepath.Join(t.TempDir(), "backup")
	if err := c.Snapshot(ctx, backup); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		mustCreatePod(ctx, t, operator, newPod(fmt.Sprintf("lost-%d", i)))
	}
	newest, err := operator.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(newest.Items) != 50 {
		t.Fatal(err, len(newest.Items))
	}
	if err := c.Rewind(ctx, backup); err != nil {
		t.Fatal(err)
	}
	restored, err := operator.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(restored.Items) != 0 {
		t.Fatalf("%v, %d pods after the rewind", err, len(restored.Items))
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	watch, err := operator.CoreV1().Pods("default").Watch(limited, metav1.ListOptions{ResourceVersion: newest.ResourceVersion})
	if err != nil {
		t.Logf("the watch is refused: %v", err)
		return
	}
	defer watch.Stop()
	mustCreatePod(ctx, t, operator, newPod("after"))
	select {
	case event, open := <-watch.ResultChan():
		t.Logf("the watch says %v (open: %t)", event.Type, open)
	case <-limited.Done():
		t.Log("the watch stays open and empty")
	}
}

// TestAPIServerFrozenConnection: a call over a frozen connection gets neither answer nor error, and
// a thawed one goes on; one that is cut fails at once.
func TestAPIServerFrozenConnection(t *testing.T) {
	c := Start(t, Options{})
	proxy, err := NewProxy(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	through := client(t, func() *kubernetes.Clientset { return kubernetes.NewForConfigOrDie(proxy.Config(c.Admin())) })
	get := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		_, err := through.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	}
	if err := get(patience.Of(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	proxy.Freeze()
	if err := get(300 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("frozen: %v", err)
	}
	proxy.Thaw()
	if err := get(patience.Of(10 * time.Second)); err != nil {
		t.Errorf("thawed: %v", err)
	}
	proxy.Cut()
	if err := get(patience.Of(10 * time.Second)); err != nil {
		t.Logf("the first call after the cut: %v", err)
		if err := get(patience.Of(10 * time.Second)); err != nil {
			t.Errorf("the second: %v", err)
		}
	}
}

// TestAPIServerControllers: a Deployment becomes pods on a node.
func TestAPIServerControllers(t *testing.T) {
	ctx := t.Context()
	began := time.Now()
	c := Start(t, Options{Scheduler: true, Controllers: true})
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))
	operator, node := admin(t, c), agent(t, c)
	made := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	ready := v1.NodeStatus{
		Capacity:   v1.ResourceList{v1.ResourcePods: quantity("10"), v1.ResourceCPU: quantity("4"), v1.ResourceMemory: quantity("4Gi")},
		Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
	}
	ready.Allocatable = ready.Capacity
	made.Status = ready
	if _, err := node.CoreV1().Nodes().Create(ctx, made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Kubectl(ctx, "create", "deployment", "web", "--image=app:1", "--replicas=3"); err != nil {
		t.Fatal(out, err)
	}
	limited, cancel := context.WithTimeout(ctx, patience.Of(time.Minute))
	defer cancel()
	for {
		pods, err := operator.CoreV1().Pods("default").List(limited, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
		if err == nil && len(pods.Items) == 3 {
			return
		}
		if timing.Sleep(limited, clock.RealClock{}, 100*time.Millisecond) != nil {
			out, _ := c.Kubectl(ctx, "describe", "nodes,pods")
			t.Fatalf("%v, %s", err, out)
		}
	}
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }
