package statussink

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/mirror"
	"github.com/podwright/podwright/syncloop/source"
)

func newMirrors(t *testing.T, s *server) *Mirrors {
	t.Helper()
	m, err := NewMirrors(s.client(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mirrorPod(uid types.UID, name string) *v1.Pod {
	pod := aPod(uid, name)
	pod.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
	return pod
}

// TestPageIsNoMissingMirrorPod: KT9. A 404 page of something in front of the API server does not say that there is no mirror pod.
func TestPageIsNoMissingMirrorPod(t *testing.T) {
	s := newServer()
	m := newMirrors(t, s)
	s.setFault(func(*http.Request) *http.Response { return page(http.StatusNotFound) })
	if _, err := m.Get(t.Context(), "shop", "web"); err == nil || errors.Is(err, mirror.ErrNotFound) {
		t.Errorf("read: %v", err)
	}
	for _, uid := range []types.UID{"", "u1"} {
		if err := m.Delete(t.Context(), "shop", "web", uid); err == nil || errors.Is(err, mirror.ErrNotFound) {
			t.Errorf("deleted with the UID %q: %v", uid, err)
		}
	}
}

// TestPageDecidesNothingAboutAMirrorPod: KT9. A 409 page of something in front of the API server says neither that there is a
// mirror pod of that name nor that it is another one.
func TestPageDecidesNothingAboutAMirrorPod(t *testing.T) {
	s := newServer()
	m := newMirrors(t, s)
	s.setFault(func(*http.Request) *http.Response { return page(http.StatusConflict) })
	if err := m.Create(t.Context(), mirrorPod("", "web")); err == nil || errors.Is(err, mirror.ErrExists) {
		t.Errorf("created: %v", err)
	}
	if err := m.Delete(t.Context(), "shop", "web", "u1"); err == nil || errors.Is(err, mirror.ErrPrecondition) {
		t.Errorf("deleted: %v", err)
	}
}

// TestMirrorClient: KT9, MC1, MC2. What the server answers becomes the errors that the
// engine tells apart.
func TestMirrorClient(t *testing.T) {
	s := newServer()
	m := newMirrors(t, s)
	if err := m.Create(t.Context(), mirrorPod("", "web")); err != nil {
		t.Fatal(err)
	}
	if err := m.Create(t.Context(), mirrorPod("", "web")); !errors.Is(err, mirror.ErrExists) {
		t.Errorf("created twice: %v", err)
	}
	made, err := m.Get(t.Context(), "shop", "web")
	if err != nil || made.UID == "" {
		t.Fatalf("got %v, %v", made, err)
	}
	if _, err := m.Get(t.Context(), "shop", "db"); !errors.Is(err, mirror.ErrNotFound) {
		t.Errorf("got nothing: %v", err)
	}
	if err := m.Delete(t.Context(), "shop", "web", "other"); !errors.Is(err, mirror.ErrPrecondition) {
		t.Errorf("deleted another life: %v", err)
	}
	if err := m.Delete(t.Context(), "shop", "web", made.UID); err != nil {
		t.Error(err)
	}
	if err := m.Delete(t.Context(), "shop", "web", made.UID); !errors.Is(err, mirror.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	s.setFault(func(*http.Request) *http.Response {
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no", 0)
	})
	for _, err := range []error{m.Create(t.Context(), mirrorPod("", "x")), m.Delete(t.Context(), "shop", "x", "u")} {
		if err == nil || errors.Is(err, mirror.ErrNotFound) || errors.Is(err, mirror.ErrExists) || errors.Is(err, mirror.ErrPrecondition) {
			t.Errorf("refused: %v", err)
		}
	}
	if _, err := NewMirrors(nil); err == nil {
		t.Error("no client was accepted")
	}
}

// TestDeleteByNameTakesMirrorPodsOnly: KT9. An orphaned mirror pod is deleted by its name;
// an ordinary pod of that name stays.
func TestDeleteByNameTakesMirrorPodsOnly(t *testing.T) {
	s := newServer()
	m := newMirrors(t, s)
	s.put(mirrorPod("u1", "web"))
	s.put(aPod("u2", "db"))
	if err := m.Delete(t.Context(), "shop", "web", ""); err != nil || s.pod("shop", "web") != nil {
		t.Errorf("the mirror pod: %v, left %v", err, s.pod("shop", "web"))
	}
	if err := m.Delete(t.Context(), "shop", "db", ""); !errors.Is(err, mirror.ErrPrecondition) || s.pod("shop", "db") == nil {
		t.Errorf("the ordinary pod: %v, left %v", err, s.pod("shop", "db"))
	}
}

// TestDeletedMirrorReturns: KT9. A mirror pod is owned by the UID of the Node and shows
// what its static pod does; when it is deleted the static pod runs on, and the next mirror
// shows the same.
func TestDeletedMirrorReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), fake.New(fake.Options{})
		files := source.NewChannel(source.ChannelOptions{NodeName: "n1"})
		a := newAgent(t, s, rt, func(c *podwright.Config) {
			c.Sources = append(c.Sources, files)
			c.Mirrors = mirror.Options{Client: newMirrors(t, s), Node: func() *v1.Node {
				return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
			}}
		})
		a.start()
		static := runnable("static-uid", "web")
		static.CreationTimestamp = metav1.Time{}
		if err := files.Set(t.Context(), []*v1.Pod{static}); err != nil {
			t.Fatal(err)
		}
		shown := func(not types.UID) func() bool {
			return func() bool {
				m := s.pod("shop", "web")
				return m != nil && m.UID != not && m.Status.Phase == v1.PodRunning
			}
		}
		a.within(time.Minute, "a mirror that shows the pod running", shown(""))
		first := s.pod("shop", "web")
		if o := first.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].Name != "n1" || o[0].UID != "node-uid" {
			t.Errorf("owners %v", o)
		}
		s.remove("shop", "web")
		a.within(time.Minute, "the next mirror", shown(first.UID))
		if n := len(rt.Calls(fake.Match{Method: fake.StartContainer})); n != 1 {
			t.Errorf("%d containers were started", n)
		}
		if second := s.pod("shop", "web"); second.Status.ContainerStatuses[0].ContainerID != first.Status.ContainerStatuses[0].ContainerID {
			t.Error("the next mirror shows another container")
		}
		a.stop()
	})
}
