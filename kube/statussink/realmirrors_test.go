//go:build apiserver

package statussink

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/apitest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/mirror"
	"github.com/podwright/podwright/syncloop/source"
)

// TestAPIServerMirror: KT9, KW4. Static pods of an engine have mirror pods at a real API server
// under NodeRestriction: also those with a priority class, and those that leave everything
// to defaults. They show what runs, come back, and go with their static pod.
func TestAPIServerMirror(t *testing.T) {
	cluster, operator, node := realCluster(t, apitest.Options{})
	owner, err := node.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 1000, GlobalDefault: true,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rt := fake.New(fake.Options{})
	a, files := mirroringAgent(t, cluster, rt, func() *v1.Node { return owner })
	a.start()
	plain, critical := static("plain"), static("critical")
	critical.Spec.PriorityClassName = "system-node-critical"
	if err := files.Set(t.Context(), []*v1.Pod{plain, critical}); err != nil {
		t.Fatal(err)
	}
	get := func(name string) *v1.Pod { return operator.system(t, name) }
	uids := map[string]types.UID{}
	for _, name := range []string{"plain", "critical"} {
		a.within(30*time.Second, "a mirror of "+name, func() bool {
			pod := get(name)
			return pod != nil && pod.Status.Phase == v1.PodRunning && pod.OwnerReferences[0].UID == owner.UID
		})
		uids[name] = get(name).UID
	}
	if err := operator.CoreV1().Pods(metav1.NamespaceSystem).Delete(t.Context(), "plain", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.within(time.Minute, "the next mirror", func() bool {
		pod := get("plain")
		return pod != nil && pod.UID != uids["plain"] && pod.Status.Phase == v1.PodRunning
	})
	if n := len(rt.Calls(fake.Match{Method: fake.StartContainer})); n != 2 {
		t.Errorf("%d starts", n)
	}
	if err := files.Set(t.Context(), []*v1.Pod{critical}); err != nil {
		t.Fatal(err)
	}
	a.within(time.Minute, "the orphaned mirror gone", func() bool { return get("plain") == nil })
	if pod := get("critical"); pod == nil || pod.UID != uids["critical"] {
		t.Errorf("the other mirror: %v", pod)
	}
	a.stop()
}

func static(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "nginx:1.29"}}},
	}
}

func realMirrors(t *testing.T, operator, node *real) {
	client, err := NewMirrors(node)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := node.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	static := runnable("static-uid", "mirrored")
	static.Namespace, static.Annotations = "default", map[string]string{"kubernetes.io/config.hash": "hash"}
	pod, err := mirror.Of(static, owner)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := client.Create(t.Context(), pod); !errors.Is(err, mirror.ErrExists) {
		t.Errorf("twice: %v", err)
	}
	created, err := operator.CoreV1().Pods("default").Get(t.Context(), "mirrored", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.known(t, created)
	made, err := client.Get(t.Context(), "default", "mirrored")
	if err != nil || made.OwnerReferences[0].UID != owner.UID {
		t.Fatalf("%v, %v", made, err)
	}
	if got := store(t, realSink(t, node, nil), made, phase(v1.PodRunning)); got != status.Stored {
		t.Errorf("its status: %v", got)
	}
	if err := client.Delete(t.Context(), "default", "mirrored", "other"); !errors.Is(err, mirror.ErrPrecondition) {
		t.Errorf("another life: %v", err)
	}
	if err := client.Delete(t.Context(), "default", "mirrored", ""); err != nil {
		t.Error(err)
	}
	if err := client.Delete(t.Context(), "default", "mirrored", made.UID); !errors.Is(err, mirror.ErrNotFound) {
		t.Errorf("twice: %v", err)
	}
	ordinary := pod.DeepCopy()
	delete(ordinary.Annotations, v1.MirrorPodAnnotationKey)
	if err := client.Create(t.Context(), ordinary); !apierrors.IsForbidden(err) {
		t.Errorf("an ordinary pod: %v", err)
	}
}

// TestAPIServerRejoin: KT9, KN8. When the Node is deleted and made again, its mirror pods go with
// the old one and come back as those of the new one; no container restarts.
func TestAPIServerRejoin(t *testing.T) {
	cluster, operator, node := realCluster(t, apitest.Options{Controllers: true})
	var owner atomic.Pointer[v1.Node]
	know := func() {
		n, err := node.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		owner.Store(n)
	}
	know()
	rt := fake.New(fake.Options{})
	a, files := mirroringAgent(t, cluster, rt, owner.Load)
	a.start()
	if err := files.Set(t.Context(), []*v1.Pod{static("plain")}); err != nil {
		t.Fatal(err)
	}
	owned := func() bool {
		pod := operator.system(t, "plain")
		return pod != nil && pod.Status.Phase == v1.PodRunning && pod.OwnerReferences[0].UID == owner.Load().UID
	}
	a.within(30*time.Second, "a mirror", owned)
	if err := operator.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := node.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	know()
	a.within(2*time.Minute, "a mirror of the new Node", owned)
	if n := len(rt.Calls(fake.Match{Method: fake.StartContainer})); n != 1 {
		t.Errorf("%d starts", n)
	}
	a.stop()
}

// mirroringAgent is an agent with static pods of a program, which have mirror pods.
func mirroringAgent(t *testing.T, cluster *apitest.Cluster, rt *fake.Runtime, owner mirror.NodeGetter) (*agent, *source.Channel) {
	t.Helper()
	a, client := realAgent(t, cluster.Node(nodeName), rt)
	files := source.NewChannel(source.ChannelOptions{NodeName: nodeName})
	a.edit = func(c *podwright.Config) {
		mirrors, err := NewMirrors(client())
		if err != nil {
			t.Fatal(err)
		}
		c.Sources = append(c.Sources, files)
		c.Mirrors = mirror.Options{Client: mirrors, Node: owner}
	}
	return a, files
}

// system returns a pod of the system's namespace, nil if there is none.
func (x *real) system(t *testing.T, name string) *v1.Pod {
	t.Helper()
	pod, err := x.CoreV1().Pods(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return pod
}
