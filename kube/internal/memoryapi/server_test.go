package memoryapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func clientOf(s *Server, node string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", Transport: s.Transport(node), QPS: -1})
}

func podOf(name string, uid types.UID, node string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}, Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main"}}}}
}

// TestPreconditions: what API servers of v1.36 answer to writes that are about another life or version.
func TestPreconditions(t *testing.T) {
	s := New(nil)
	ctx, operator := t.Context(), clientOf(s, "").CoreV1().Pods("default")
	node := clientOf(s, "n1").CoreV1().Pods("default")
	made, err := operator.Create(ctx, podOf("web", "web-1", "n1"), metav1.CreateOptions{})
	if err != nil || made.UID != "web-1" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() {
		t.Fatalf("%+v, %v", made, err)
	}
	patch := func(name, text string) error {
		_, err := node.Patch(ctx, name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, "status")
		return err
	}
	other := types.UID("web-0")
	for what, c := range map[string]struct {
		got  error
		want func(error) bool
	}{
		"the name is taken":           {second(operator.Create(ctx, podOf("web", "web-2", "n1"), metav1.CreateOptions{})), apierrors.IsAlreadyExists},
		"a status of another life":    {patch("web", `{"metadata":{"uid":"web-0"},"status":{"phase":"Running"}}`), apierrors.IsInvalid},
		"a status on an old version":  {patch("web", `{"metadata":{"resourceVersion":"1"},"status":{"phase":"Running"}}`), apierrors.IsConflict},
		"a deletion of another life":  {node.Delete(ctx, "web", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}), apierrors.IsConflict},
		"no pod, for an operator":     {second(operator.Get(ctx, "none", metav1.GetOptions{})), apierrors.IsNotFound},
		"no pod, for a node":          {second(node.Get(ctx, "none", metav1.GetOptions{})), apierrors.IsForbidden},
		"a status of no pod":          {patch("none", `{"status":{"phase":"Running"}}`), apierrors.IsNotFound},
		"a pod of another node":       {second(clientOf(s, "n2").CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})), apierrors.IsForbidden},
		"an ordinary pod from a node": {second(node.Create(ctx, podOf("mine", "", "n1"), metav1.CreateOptions{})), apierrors.IsForbidden},
		"an unknown resource":         {second(clientOf(s, "").StorageV1().CSIDrivers().Get(ctx, "x", metav1.GetOptions{})), apierrors.IsNotFound},
	} {
		if !c.want(c.got) {
			t.Errorf("%s: %v", what, c.got)
		}
	}
	if err := patch("web", `{"metadata":{"uid":"web-1","labels":{"a":"b"}},"spec":{"nodeName":"n2"},"status":{"phase":"Running"}}`); err != nil {
		t.Fatal(err)
	}
	before := len(s.History())
	if err := patch("web", `{"status":{"phase":"Running"}}`); err != nil || len(s.History()) != before {
		t.Errorf("a patch that changes nothing: %v, %d changes", err, len(s.History())-before)
	}
	got, err := operator.Get(ctx, "web", metav1.GetOptions{})
	if err != nil || got.Status.Phase != v1.PodRunning || got.Spec.NodeName != "n1" || len(got.Labels) > 0 {
		t.Errorf("a patch of the status changed more: %+v, %v", got, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestGracefulDeletion: a pod that is bound goes when its node says so, or has ended.
func TestGracefulDeletion(t *testing.T) {
	s := New(nil)
	ctx, pods := t.Context(), clientOf(s, "").CoreV1().Pods("default")
	for name, c := range map[string]struct {
		node  string
		phase v1.PodPhase
		grace *int64
		stays bool
	}{
		"bound": {"n1", v1.PodRunning, nil, true}, "unbound": {"", "", nil, false}, "ended": {"n1", v1.PodFailed, nil, false}, "forced": {"n1", v1.PodRunning, ptr.To[int64](0), false},
	} {
		pod := podOf(name, "", c.node)
		pod.Status.Phase = c.phase
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: c.grace}); err != nil {
			t.Fatal(err)
		}
		got, err := pods.Get(ctx, name, metav1.GetOptions{})
		if c.stays != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if c.stays && (got.DeletionTimestamp == nil || *got.DeletionGracePeriodSeconds != 30) {
			t.Errorf("%s: %+v", name, got.ObjectMeta)
		}
	}
	for _, grace := range []int64{60, 5} {
		if err := pods.Delete(ctx, "bound", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := pods.Get(ctx, "bound", metav1.GetOptions{}); err != nil || *got.DeletionGracePeriodSeconds != 5 {
		t.Errorf("a grace becomes shorter only: %+v, %v", got, err)
	}
}

// TestMirrorsAndGarbage: a node's mirror pods are owned by its Node as it is, and go with it.
func TestMirrorsAndGarbage(t *testing.T) {
	s := New(nil)
	ctx, operator, node := t.Context(), clientOf(s, "").CoreV1(), clientOf(s, "n1").CoreV1()
	self, err := node.Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil || self.UID == "" {
		t.Fatal(self, err)
	}
	mirror := podOf("static-n1", "", "n1")
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
	for owner, allowed := range map[types.UID]bool{"": false, "another": false, self.UID: true} {
		if mirror.OwnerReferences = nil; owner != "" {
			mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: owner}}
		}
		if _, err := node.Pods("default").Create(ctx, mirror, metav1.CreateOptions{}); (err == nil) != allowed {
			t.Errorf("owner %q: %v", owner, err)
		}
	}
	s.CollectGarbage()
	if _, err := operator.Pods("default").Get(ctx, "static-n1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := operator.Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.CollectGarbage()
	if _, err := operator.Pods("default").Get(ctx, "static-n1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the mirror pod of a Node that is gone: %v", err)
	}
}

// TestTokens: they are for a pod of the node, by its UID.
func TestTokens(t *testing.T) {
	s := New(nil)
	ctx, operator, node := t.Context(), clientOf(s, "").CoreV1(), clientOf(s, "n1").CoreV1().ServiceAccounts("default")
	_, a := operator.ServiceAccounts("default").Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	_, b := operator.Pods("default").Create(ctx, podOf("web", "web-1", "n1"), metav1.CreateOptions{})
	if err := errors.Join(a, b); err != nil {
		t.Fatal(err)
	}
	ask := func(account, pod string, uid types.UID) (*authenticationv1.TokenRequest, error) {
		return node.CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To[int64](3600), BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", Name: pod, UID: uid},
		}}, metav1.CreateOptions{})
	}
	if got, err := ask("default", "web", "web-1"); err != nil || !strings.Contains(got.Status.Token, "web-1") || time.Until(got.Status.ExpirationTimestamp.Time) < 50*time.Minute {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ask("default", "web", "web-0"); !apierrors.IsConflict(err) {
		t.Errorf("another life: %v", err)
	}
	if _, err := ask("default", "none", "web-1"); !apierrors.IsForbidden(err) {
		t.Errorf("no pod: %v", err)
	}
	if _, err := ask("none", "web", "web-1"); !apierrors.IsNotFound(err) {
		t.Errorf("no account: %v", err)
	}
}

// TestWatch: a streamed list, events of the objects that are chosen, bookmarks, and a watch that goes on from a revision.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		pods := clientOf(s, "").CoreV1().Pods("default")
		create := func(name, node string) {
			if _, err := pods.Create(t.Context(), podOf(name, types.UID(name), node), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		create("a", "n1")
		create("x", "n2")
		o := metav1.ListOptions{
			FieldSelector: "spec.nodeName=n1", SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, TimeoutSeconds: ptr.To[int64](150),
		}
		w, err := pods.Watch(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		var version string
		read := func() string {
			synctest.Wait()
			for {
				select {
				case e, ok := <-w.ResultChan():
					if !ok {
						return strings.Join(append(seen, "end"), " ")
					}
					p := e.Object.(*v1.Pod)
					version = p.ResourceVersion
					text := fmt.Sprintf("%s:%s", e.Type, p.Name)
					if e.Type == watch.Bookmark {
						text += p.Annotations[metav1.InitialEventsAnnotationKey]
					}
					seen = append(seen, text)
				default:
					return strings.Join(seen, " ")
				}
				synctest.Wait()
			}
		}
		if got := read(); got != "ADDED:a BOOKMARK:true" {
			t.Errorf("the list: %s", got)
		}
		create("y", "n2")
		create("b", "n1")
		seen = nil
		if got := read(); got != "ADDED:b" {
			t.Errorf("an event: %s", got)
		}
		seen = nil
		for range 3 {
			<-time.After(time.Minute)
			read()
		}
		if got := read(); got != "BOOKMARK: BOOKMARK: end end" && got != "BOOKMARK: BOOKMARK: end" {
			t.Errorf("two and a half minutes: %s", got)
		}
		if err := pods.Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
			t.Fatal(err)
		}
		seen = nil
		if w, err = pods.Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n1", ResourceVersion: version}); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != "DELETED:a" {
			t.Errorf("from a revision: %s", got)
		}
		w.Stop()
		synctest.Wait()
	})
}
