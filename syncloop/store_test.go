package syncloop

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
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
		"removed, then added": func(s *Store) { s.remove("old"); s.set(newer) },
		"added, then removed": func(s *Store) { s.set(newer); s.remove("old") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			s.set(oldPod)
			s.set(newPod("m", "web", annotated(podinfo.AnnotationMirror, "x")))
			steps(s)
			if p := s.staticOf(s.Mirrors()[0]); p == nil || p.UID != "new" {
				t.Errorf("the name finds %v", p)
			}
			if _, ok := s.Get("old"); ok {
				t.Error("the old pod is still known")
			}
			s.remove("new")
			if p := s.staticOf(s.Mirrors()[0]); p != nil {
				t.Errorf("the name of the last pod still finds %v", p)
			}
		})
	}
}

func TestStoreIndexes(t *testing.T) { // PM1, PM2, PM3, PM5
	s := newStore()
	mirror := newPod("m", "web", annotated(podinfo.AnnotationMirror, "x"))
	s.set(mirror)
	s.set(newPod("z", "other"))
	s.set(newPod("a", "web"))
	if diff := cmp.Diff([]types.UID{"a", "z"}, uids(s.Pods())); diff != "" {
		t.Errorf("pods, sorted and without mirrors (-want +got):\n%s", diff)
	}
	if _, ok := s.Get("m"); ok {
		t.Error("a mirror pod is found as a pod (PM3)")
	}
	pod, _ := s.Get("a")
	if s.MirrorOf(pod) != mirror || s.staticOf(mirror) != pod {
		t.Error("pod and mirror do not find each other")
	}
	s.set(newPod("a", "web", image("app:2")))
	if pod, _ := s.Get("a"); pod.Spec.Containers[0].Image != "app:2" {
		t.Error("setting again does not replace (PM2)")
	}
	s.remove("m")
	if s.MirrorOf(pod) != nil || len(s.Mirrors()) != 0 {
		t.Error("a removed mirror is still found")
	}
	s.remove("unknown")
}

// TestTranslation: PM4, PM6. Whichever comes first, a mirror's UID leads to its
// static pod; a mirror without one is an orphan.
func TestTranslation(t *testing.T) {
	static := newPod("a", "web", annotated(podinfo.AnnotationSource, "file"))
	alone := newPod("b", "alone", annotated(podinfo.AnnotationSource, "file"))
	fromAPI := newPod("c", "api", annotated(podinfo.AnnotationSource, SourceAPI))
	mirror := newPod("m", "web", annotated(podinfo.AnnotationMirror, "x"))
	orphan := newPod("o", "gone", annotated(podinfo.AnnotationMirror, "y"))
	for _, order := range [][]*v1.Pod{{static, alone, fromAPI, mirror, orphan}, {orphan, mirror, fromAPI, alone, static}} {
		s := newStore()
		for _, p := range order {
			s.set(p)
		}
		for from, to := range map[types.UID]types.UID{"m": "a", "a": "a", "o": "o", "unknown": "unknown"} {
			if got := s.TranslateUID(from); got != to {
				t.Errorf("%s leads to %s, want %s", from, got, to)
			}
		}
		if diff := cmp.Diff([]types.UID{"o"}, uids(s.OrphanedMirrors())); diff != "" {
			t.Errorf("orphans (-want +got):\n%s", diff)
		}
		s.remove("a")
		if diff := cmp.Diff([]types.UID{"m", "o"}, uids(s.OrphanedMirrors())); diff != "" {
			t.Errorf("orphans without the static pod (-want +got):\n%s", diff)
		}
	}
}

func TestNames(t *testing.T) { // section 3
	pod := newPod("a", "web")
	if got := podinfo.FullName(pod.Namespace, pod.Name); got != "web_default" {
		t.Errorf("full name %q", got)
	}
	if podinfo.Static(pod) || podinfo.Static(newPod("a", "web", annotated(podinfo.AnnotationSource, SourceAPI))) ||
		!podinfo.Static(newPod("a", "web", annotated(podinfo.AnnotationSource, "file"))) {
		t.Error("static is who comes from another source than the API")
	}
}
