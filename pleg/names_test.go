package pleg

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// N6: the pods that run under one name, whatever their UIDs, as the newest
// statuses show them.
func TestRunningAsFindsEveryUIDOfAName(t *testing.T) {
	named := func(uid types.UID, name string, sandbox, container runtime.State) *runtime.PodStatus {
		s := &runtime.PodStatus{UID: uid, Name: name, Namespace: "default"}
		if sandbox != runtime.Unknown {
			s.Sandboxes = []*runtime.SandboxStatus{{ID: "s" + string(uid), State: sandbox}}
		}
		if container != runtime.Unknown {
			s.Containers = []*runtime.ContainerStatus{{
				ID: runtime.ContainerID{Runtime: "r", ID: "c" + string(uid)}, Name: "main", State: container,
				RestartCount: 2, Annotations: map[string]string{"a": "b"},
			}}
		}
		return s
	}
	c := newCache()
	check := func(when string, want ...types.UID) {
		t.Helper()
		var got []types.UID
		for _, p := range c.runningAs(types.NamespacedName{Namespace: "default", Name: "web"}) {
			got = append(got, p.UID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	check("nothing known")
	c.set("z", named("z", "web", runtime.Running, runtime.Exited), nil, 1)
	c.set("a", named("a", "web", runtime.Exited, runtime.Running), nil, 2)
	c.set("m", named("m", "web", runtime.Exited, runtime.Exited), nil, 3)
	c.set("o", named("o", "other", runtime.Running, runtime.Running), nil, 4)
	check("a ready sandbox or a running container", "a", "z")
	c.set("z", nil, runtime.ErrUnavailable, 5)
	check("a failed reading tells nothing new", "a", "z")
	c.set("z", &runtime.PodStatus{UID: "z"}, nil, 6)
	check("read as absent", "a")
	c.set("z", named("z", "web", runtime.Running, runtime.Unknown), nil, 7)
	check("there again", "a", "z")
	c.relisted(8, []types.UID{"a", "m", "o"}, nil, nil)
	check("removed", "z")
	c.relisted(9, []types.UID{"z"}, nil, nil)
	check("all removed")
	if len(c.names) != 0 {
		t.Errorf("names of pods that are gone: %v", c.names)
	}

	// What is returned is enough to stop the pod.
	c.set("z", named("z", "web", runtime.Running, runtime.Running), nil, 10)
	pod := c.runningAs(types.NamespacedName{Namespace: "default", Name: "web"})[0]
	if len(pod.Sandboxes) != 1 || pod.Sandboxes[0].ID != "sz" || len(pod.Containers) != 1 {
		t.Fatalf("%+v", pod)
	}
	if got := pod.Containers[0]; got.ID.ID != "cz" || got.Name != "main" || got.Attempt != 2 || got.Annotations["a"] != "b" {
		t.Errorf("%+v", got)
	}
}
