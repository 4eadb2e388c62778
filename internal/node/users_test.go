package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

func newUsers() Users {
	return Users{Calls: foreign.New(clock.RealClock{}), Clock: clock.RealClock{}, Hold: func(ctx context.Context, _ types.UID, _ string) (context.Context, func(), bool) {
		return ctx, func() {}, true
	}}
}

// TestHandlerOfAUser: IN6. A prompt verdict is given at once; a late one is told, once, and counts for
// the pod as it was; a panic is an error; each error names the handler. One without a verdict refuses
// callers that cannot wait.
func TestHandlerOfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, asked, late, hung := newUsers(), map[types.UID]*atomic.Int32{}, make(chan types.UID, 9), make(chan struct{})
		for _, uid := range []types.UID{"prompt", "slow", "hangs", "panics"} {
			asked[uid] = &atomic.Int32{}
		}
		pod := func(uid types.UID) *v1.Pod {
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid)}}
		}
		handlers := u.SoftHandlers([]admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
			n := asked[r.Pod.UID].Add(1)
			switch r.Pod.UID {
			case "slow":
				<-time.After(3 * time.Second)
			case "hangs":
				<-hung
			case "panics":
				panic("no policy")
			}
			return admission.Refuse("No", "%d", n)
		})}, func(uid types.UID) { late <- uid })
		ask := func(p *v1.Pod) string {
			v, err := admission.Judge(handlers, admission.Request{Pod: p})
			if err != nil {
				return strings.SplitN(err.Error(), ",", 2)[0]
			}
			return v.Reason + " " + v.Message
		}
		expect := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		expect("prompt", ask(pod("prompt")), "No 1")
		expect("prompt again", ask(pod("prompt")), "No 2")
		expect("a panic", ask(pod("panics")), "Admission.Soft[0] panicked: no policy")
		expect("slow", ask(pod("slow")), "Admission.Soft[0]")
		expect("hung", ask(pod("hangs")), "Admission.Soft[0]")
		<-time.After(5 * time.Second)
		expect("slow, late", ask(pod("slow")), "No 1")
		expect("slow, asked again", ask(pod("slow")), "Admission.Soft[0]")
		changed := pod("slow")
		changed.Spec.NodeName = "other"
		<-time.After(5 * time.Second)
		expect("slow and changed", ask(changed), "Admission.Soft[0]")
		expect("hung again", ask(pod("hangs")), "Admission.Soft[0]")
		if n := asked["hangs"].Load(); n != 1 || len(late) != 2 || <-late != "slow" {
			t.Errorf("asked %d times, %d late verdicts", n, len(late)+1)
		}
		if v := handlers[0].Admit(admission.Request{Pod: pod("hangs")}); v.Reason != admission.ReasonUnexpected {
			t.Errorf("without an answer: %v", v)
		}
		if got := u.Calls.Problems(); len(got) != 2 || got[0].Kind != "function" {
			t.Errorf("problems: %v", got)
		}
		close(hung)
		<-time.After(5 * time.Second)
	})
}

// licences is an Asker of a user, which has a verdict once it is connected.
type licences struct{ connected *atomic.Bool }

var errNotConnected = errors.New("the licence server is not connected")

func (l licences) Ask(admission.Request) (admission.Verdict, error) {
	if !l.connected.Load() {
		return admission.Verdict{}, errNotConnected
	}
	return admission.Verdict{}, nil
}

func (l licences) Admit(admission.Request) admission.Verdict {
	return admission.Refuse("NoLicence", "asked as one that cannot wait")
}

// TestAskerOfAUser: IN6. An Asker without a verdict makes the pod wait, and gives its turn to other pods.
func TestAskerOfAUser(t *testing.T) {
	for name, handlers := range map[string]func(Users, []admission.Handler, func(types.UID)) []admission.Handler{
		"before the pod starts": Users.Handlers, "softly": Users.SoftHandlers,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				user := licences{&atomic.Bool{}}
				wrapped := handlers(newUsers(), []admission.Handler{user}, func(types.UID) {})
				ask := func(uid types.UID) (admission.Verdict, error) {
					return admission.Judge(wrapped, admission.Request{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}})
				}
				for _, uid := range []types.UID{"a", "b", "a"} {
					if v, err := ask(uid); !errors.Is(err, errNotConnected) {
						t.Errorf("pod %s: %v, %v", uid, v, err)
					}
				}
				user.connected.Store(true)
				if v, err := ask("a"); err != nil || !v.Admitted() {
					t.Errorf("once connected: %v, %v", v, err)
				}
			})
		})
	}
}

// imageHost has unused images and removes them.
type imageHost struct {
	evictionNode
	images  []string
	removed atomic.Int32
}

func (h *imageHost) ListImages(context.Context, *runtimeapi.ImageFilter) (out []*runtimeapi.Image, err error) {
	for _, id := range h.images {
		out = append(out, &runtimeapi.Image{Id: id, RepoTags: []string{id}, Size: 1})
	}
	return out, nil
}

func (h *imageHost) RemoveImage(_ context.Context, image *runtimeapi.ImageSpec) error {
	h.images = slices.DeleteFunc(h.images, func(id string) bool { return id == image.GetImage() })
	h.removed.Add(1)
	return nil
}

// TestSlowHostDecidesOnImages: IN6, IN11. A host that takes half a second to permit the removal of an image
// is heard, and one that never answers for some of them delays a run by 10 s.
func TestSlowHostDecidesOnImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, hung := newUsers(), make(chan struct{})
		veto := u.Veto(func(a cleanup.Action) error {
			if strings.HasPrefix(a.Object.ID, "hangs") {
				<-hung
			}
			<-time.After(500 * time.Millisecond)
			return nil
		}, func() {})
		n := &imageHost{}
		for i := range 20 {
			n.images = append(n.images, fmt.Sprintf("hangs-%02d", i))
		}
		n.images = append(n.images, "slow-1", "slow-2")
		i := &Images{Runtime: n, Path: t.TempDir(), Pods: func() []*v1.Pod { return nil }, Permit: func(a cleanup.Action) rule.Denial {
			if err := veto(a); err != nil {
				return rule.TryLater.Because(err.Error())
			}
			return rule.Denial{}
		}}
		if err := i.Collect(imagegc.Options{Store: n, Containers: n, Clock: clock.RealClock{}}); err != nil {
			t.Fatal(err)
		}
		_ = i.Reclaim(t.Context()) // the images are too new
		<-time.After(5 * time.Minute)
		began := time.Now()
		if err := i.Reclaim(t.Context()); err != nil {
			t.Error(err)
		}
		if n.removed.Load() != 2 || len(n.images) != 20 {
			t.Errorf("%d images removed, %d left", n.removed.Load(), len(n.images))
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the run took %v", took)
		}
		close(hung)
		<-time.After(time.Second)
	})
}

// slowVolumes makes volumes that say for which pod they were made.
type slowVolumes struct{ release chan struct{} }

func (slowVolumes) Handles(*v1.Pod, *v1.Volume) bool { return true }
func (s slowVolumes) SetUp(_ context.Context, pod *v1.Pod, _ *v1.Volume) (pods.MountedVolume, error) {
	<-s.release
	return pods.MountedVolume{HostPath: "/" + pod.Spec.NodeName}, nil
}
func (slowVolumes) TearDown(context.Context, types.UID) error            { return nil }
func (slowVolumes) Mounted(context.Context, types.UID) ([]string, error) { return nil, nil }

// TestVolumeIsMadeForThePodAsItIs: IN6. A pod that changed while the volume manager hung does not get
// the volume that was made for it as it was.
func TestVolumeIsMadeForThePodAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := slowVolumes{make(chan struct{})}
		volumes, volume := newUsers().Volumes(m), &v1.Volume{Name: "data"}
		old := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: v1.PodSpec{NodeName: "old"}}
		now := old.DeepCopy()
		now.Spec.NodeName = "now"
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = volumes.SetUp(ctx, old, volume)
		got := make(chan string, 1)
		go func() {
			v, err := volumes.SetUp(t.Context(), now, volume)
			if err != nil {
				got <- err.Error()
				return
			}
			got <- v.HostPath
		}()
		synctest.Wait()
		close(m.release)
		synctest.Wait()
		if path := <-got; path == "/old" {
			t.Errorf("got the volume %s", path)
		}
		if v, err := volumes.SetUp(t.Context(), now, volume); v.HostPath != "/now" || err != nil {
			t.Errorf("then %v, %v", v, err)
		}
		if _, err := volumes.Mounted(t.Context(), "uid"); errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// deafWatcher watches objects, and ignores the end of its context.
type deafWatcher struct {
	pods.ObjectGetter
	release chan struct{}
}

func (w deafWatcher) Run(context.Context, func(podinfo.Object)) error {
	<-w.release
	return nil
}

// TestDeafWatcherDoesNotHoldTheEnd: IN6. The watch of objects ends with its context, and the user's function
// is named.
func TestDeafWatcherDoesNotHoldTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, w := newUsers(), deafWatcher{release: make(chan struct{})}
		o := &Objects{Getter: w, Changed: func(podinfo.Object) {}, Calls: u.Calls, Clock: u.Clock}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if err := o.Run(ctx); err != nil || time.Since(began) != time.Hour || u.Calls.Problems() != nil {
			t.Errorf("%v after %v, %v", err, time.Since(began), u.Calls.Problems())
		}
		if lost := u.Calls.Leave(logr.Discard()); len(lost) != 1 || lost[0].Name != "Pods.Objects.Run" {
			t.Errorf("lost: %v", lost)
		}
		close(w.release)
	})
}
