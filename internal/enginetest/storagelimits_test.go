package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// TestKilledWhileAPodLeavesForItsOwnLimit: FD2, IN8, status.md 5.5. The agent is killed while a pod above the limit of its emptyDir
// is being stopped. The next one, which has only the record of that, makes it Failed for the reason Evicted too, and not the
// target of a disruption.
func TestKilledWhileAPodLeavesForItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, fake.New(fake.Options{}))
		pod := volumeWith(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("100Ki"))}})
		r := h.agent()
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		answer := h.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer, PodUID: pod.UID}, Effect: fake.Effect{Hang: true}})
		found, err := filepath.Glob(filepath.Join(h.root, "pods", string(pod.UID), "volumes", "*", "v"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		if err := os.WriteFile(filepath.Join(found[0], "data"), make([]byte, 200<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		r.within(3*time.Minute, "the pod to be stopped", func() error {
			if len(h.rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: pod.UID})) == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		h.kill(r)
		answer()

		r = h.agent()
		r.set(pod)
		r.phase(pod.UID, v1.PodFailed, time.Minute)
		if p := r.pod(pod.UID); p.Status.Reason != "Evicted" || !strings.Contains(p.Status.Message, "EmptyDir") || disrupted(p) {
			t.Errorf("%+v", p.Status)
		}
	})
}

// TestStorageLimitsHoldOverARestart: FD2. A pod that keeps running while its agent restarts is
// evicted if it then fills an emptyDir above the volume's limit or above the limits of its
// containers. The engine watches only these limits: Config.Eviction is not set.
func TestStorageLimitsHoldOverARestart(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*v1.Pod)
		want string
	}{
		"emptyDir": {func(p *v1.Pod) {
			p.Spec.Volumes[0].EmptyDir.SizeLimit = ptr.To(resource.MustParse("100Ki"))
		}, `Usage of EmptyDir volume "v" exceeds the limit "100Ki"`},
		"pod": {func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("100Ki")}
		}, "exceeds the total limit of containers 100Ki"},
		"none": {func(*v1.Pod) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root := fake.New(fake.Options{}), t.TempDir()
				pod := volumeWith(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
				test.edit(pod)
				r := newRig(t, rt, root).start()
				r.set(pod)
				r.phase(pod.UID, v1.PodRunning, time.Minute)
				r.stop()

				r = newRig(t, rt, root).start()
				r.set(pod)
				r.phase(pod.UID, v1.PodRunning, time.Minute)
				<-time.After(5 * time.Minute)
				synctest.Wait()
				if st := r.pod(pod.UID).Status; st.Phase != v1.PodRunning {
					t.Fatalf("below its limit: %s %s", st.Phase, st.Message)
				}
				found, err := filepath.Glob(filepath.Join(root, "pods", string(pod.UID), "volumes", "*", "v"))
				if err != nil || len(found) != 1 {
					t.Fatal(found, err)
				}
				if err := os.WriteFile(filepath.Join(found[0], "data"), make([]byte, 200<<10), 0o600); err != nil {
					t.Fatal(err)
				}
				if test.want == "" {
					<-time.After(5 * time.Minute)
					synctest.Wait()
					if st := r.pod(pod.UID).Status; st.Phase != v1.PodRunning {
						t.Errorf("without a limit: %s %s", st.Phase, st.Message)
					}
					return
				}
				r.within(2*time.Minute, "the eviction", func() error {
					if st := r.pod(pod.UID).Status; st.Phase != v1.PodFailed || st.Reason != "Evicted" || !strings.Contains(st.Message, test.want) {
						return fmt.Errorf("%s %s %s", st.Phase, st.Reason, st.Message)
					}
					return nil
				})
				if n := rt.Facts(pod.UID, "main").Started; n != 1 {
					t.Errorf("%d starts", n)
				}
				if disrupted(r.pod(pod.UID)) {
					t.Errorf("status.md 5.5: the target of a disruption: %+v", r.pod(pod.UID).Status)
				}
			})
		})
	}
}
