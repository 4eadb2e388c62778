package syncloop

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func uids(pods []*v1.Pod) []types.UID {
	out := []types.UID{}
	for _, p := range pods {
		out = append(out, p.UID)
	}
	return out
}

func TestStoreKeepsNamesOfNewerPods(t *testing.T) { // PM8, edge 3, edge 4
	oldPod, newer := newPod("old", "web"), newPod("new", "web")
	for name, steps := range map[string]func(*Store){
		"removed, then added": func(s *Store) { s.Remove("old"); s.Set(newer) },
		"added, then removed": func(s *Store) { s.Set(newer); s.Remove("old") },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore()
			s.Set(oldPod)
			s.Set(newPod("m", "web", annotated(AnnotationMirror, "x")))
			steps(s)
			if p, ok := s.ByName("default", "web"); !ok || p.UID != "new" {
				t.Errorf("the name finds %v", p)
			}
			if p := s.StaticOf(s.Mirrors()[0]); p == nil || p.UID != "new" {
				t.Errorf("the mirror looks orphaned: %v", p)
			}
			if _, ok := s.Get("old"); ok {
				t.Error("the old pod is still known")
			}
			s.Remove("new")
			if _, ok := s.ByName("default", "web"); ok {
				t.Error("the name of the last pod is still taken")
			}
		})
	}
}

func TestStoreIndexes(t *testing.T) { // PM1, PM2, PM3, PM5
	s := NewStore()
	mirror := newPod("m", "web", annotated(AnnotationMirror, "x"))
	s.Set(mirror)
	s.Set(newPod("z", "other"))
	s.Set(newPod("a", "web"))
	if diff := cmp.Diff([]types.UID{"a", "z"}, uids(s.Pods())); diff != "" {
		t.Errorf("pods, sorted and without mirrors (-want +got):\n%s", diff)
	}
	if _, ok := s.Get("m"); ok {
		t.Error("a mirror pod is found as a pod (PM3)")
	}
	pod, _ := s.Get("a")
	if s.MirrorOf(pod) != mirror || s.StaticOf(mirror) != pod {
		t.Error("pod and mirror do not find each other")
	}
	s.Set(newPod("a", "web", image("app:2")))
	if pod, _ := s.Get("a"); pod.Spec.Containers[0].Image != "app:2" {
		t.Error("setting again does not replace (PM2)")
	}
	s.Remove("m")
	if s.MirrorOf(pod) != nil || len(s.Mirrors()) != 0 {
		t.Error("a removed mirror is still found")
	}
	s.Remove("nobody")
}

func TestNames(t *testing.T) { // section 3
	pod := newPod("a", "web")
	if got := FullName(pod); got != "web_default" {
		t.Errorf("full name %q", got)
	}
	if IsStatic(pod) || IsStatic(newPod("a", "web", annotated(AnnotationSource, SourceAPI))) ||
		!IsStatic(newPod("a", "web", annotated(AnnotationSource, "file"))) {
		t.Error("static is who comes from another source than the API")
	}
}
