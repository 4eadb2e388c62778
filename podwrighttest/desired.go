package podwrighttest

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
)

// Pod returns a small pod in namespace default with a container per name; without names it has
// one called "main". Its UID is "uid-" plus its name.
func Pod(name string, containers ...string) *v1.Pod {
	if len(containers) == 0 {
		containers = []string{"main"}
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1.NamespaceDefault, UID: types.UID("uid-" + name)}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c, Image: "example.com/" + c + ":1"})
	}
	return p
}

// Set makes these pods, and no others, the desired ones. It returns once the engine has accepted
// them; if no engine runs, the next one gets them. Set copies the pods.
func (n *Node) Set(pods ...*v1.Pod) {
	n.t.Helper()
	n.desired = nil
	for _, p := range pods {
		n.desired = append(n.desired, p.DeepCopy())
	}
	n.deliver()
}

// Add adds pods to the desired ones, and replaces those of the same name.
func (n *Node) Add(pods ...*v1.Pod) {
	n.t.Helper()
	next := slices.Clone(n.desired)
	for _, p := range pods {
		name := fullName(keyOf(p))
		next = slices.DeleteFunc(next, func(old *v1.Pod) bool { return fullName(keyOf(old)) == name })
		next = append(next, p)
	}
	n.Set(next...)
}

// Remove removes pods from the desired ones: the engine stops them.
func (n *Node) Remove(names ...string) {
	n.t.Helper()
	next := slices.Clone(n.desired)
	for _, name := range names {
		before := len(next)
		next = slices.DeleteFunc(next, func(p *v1.Pod) bool { return fullName(keyOf(p)) == fullName(name) })
		if len(next) == before {
			n.t.Fatalf("Remove: pod %s is not desired", name)
		}
	}
	n.Set(next...)
}

// acceptance is how long an engine may take to accept the desired pods.
const acceptance = time.Minute

// deliver hands the desired pods to the engine.
func (n *Node) deliver() {
	n.t.Helper()
	if n.engine == nil {
		return
	}
	if !n.own {
		n.t.Fatal("the engine has only the test's own sources (Options.Configure): deliver pods through those")
	}
	ctx, cancel := timing.WithTimeout(n.t.Context(), n.clock, acceptance)
	defer cancel()
	err := n.source.Set(ctx, n.desired)
	if err == nil {
		return
	}
	select {
	case ended := <-n.ended:
		n.engine = nil
		n.t.Fatalf("the engine has ended: %v", ended)
	default:
		n.t.Fatalf("the engine does not accept the pods: %v", err)
	}
}

// keyOf returns the name of a pod as the methods of Node take it.
func keyOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// split returns namespace and name.
func split(key string) (namespace, name string) {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		return v1.NamespaceDefault, key
	}
	if namespace == "" {
		namespace = v1.NamespaceDefault
	}
	return namespace, name
}

func fullName(key string) string {
	namespace, name := split(key)
	return namespace + "/" + name
}
