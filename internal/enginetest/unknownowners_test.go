package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// TestNoUIDIsGivenAwayUnread: PS6. While the records have not been read because the disk does not
// answer, no source gets a UID: a tenant that answers first does not get the UID of a running pod.
func TestNoUIDIsGivenAwayUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root, disk := fake.New(fake.Options{}), t.TempDir(), &checkpointtest.Disk{}
		start := func(answers <-chan struct{}) tenancy {
			return newTenancy(t, rt, root, func(c *podwright.Config) {
				c.Checkpoints.Store = slowRecords{checkpoint.NewFiles(disk), answers}
			})
		}
		open, folder := make(chan struct{}), make(chan struct{})
		close(open)
		r := start(open)
		own, thief := privileged(newPod("own")), newPod("thief")
		thief.UID = own.UID
		r.asks()
		r.set(own)
		r.phase(own.UID, v1.PodRunning, time.Minute)
		<-time.After(10 * time.Second)
		r.stop()

		r = start(folder)
		go func() { _ = r.tenant.Set(t.Context(), []*v1.Pod{thief}) }()
		<-time.After(5 * time.Minute)
		go func() { _ = r.source.Set(t.Context(), []*v1.Pod{own}) }()
		<-time.After(5 * time.Minute)
		close(folder)
		r.phase(own.UID, v1.PodRunning, time.Minute)
		<-time.After(5 * time.Minute)
		if p := r.pod(own.UID); p.Name != "own" || starts(rt, own.UID) != 1 {
			t.Errorf("%s has the UID, %d starts", p.Name, starts(rt, own.UID))
		}
		if n := r.events.count("thief FailedValidation"); n != 1 {
			t.Errorf("%d events about the thief", n)
		}
	})
}

// TestUIDWaitsForASourceThatIsAdded: PS6. After a restart a tenant answers before the source of a
// pod is added. The tenant gets neither the UID nor the verdict of that pod.
func TestUIDWaitsForASourceThatIsAdded(t *testing.T) {
	for name, thief := range map[string]*v1.Pod{"its own": newPod("thief"), "the pod's": privileged(newPod("late")), "harmless": newPod("late")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root := fake.New(fake.Options{}), t.TempDir()
				late := privileged(newPod("late"))
				thief := thief.DeepCopy()
				thief.UID = late.UID
				add := func(r tenancy) {
					t.Helper()
					s := source.NewChannel(source.ChannelOptions{Name: "late", NodeName: "n1"})
					if err := r.engine.AddSource(t.Context(), s, admission.SourcePolicy{}); err != nil {
						t.Fatal(err)
					}
					if err := s.Set(t.Context(), []*v1.Pod{late}); err != nil {
						t.Fatal(err)
					}
				}
				r := newTenancy(t, rt, root)
				r.set()
				r.asks()
				add(r)
				r.phase(late.UID, v1.PodRunning, time.Minute)
				<-time.After(10 * time.Second)
				r.stop()

				r = newTenancy(t, rt, root)
				r.asks(thief)
				<-time.After(time.Second)
				add(r)
				r.set()
				<-time.After(5 * time.Minute)
				r.phase(late.UID, v1.PodRunning, time.Minute)
				if p := r.pod(late.UID); p.Annotations["kubernetes.io/config.source"] != "late" || p.Spec.Containers[0].SecurityContext == nil || starts(rt, late.UID) != 1 {
					t.Errorf("the UID has %s of %v, %d starts", p.Name, p.Annotations, starts(rt, late.UID))
				}
			})
		})
	}
}

// TestPodsOfASourceThatIsGone: PS6, AD5. A source has another name after a restart. Its pods
// continue once every source has answered, judged by the policy of the new name; the verdict of
// another source admits none of them.
func TestPodsOfASourceThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		pods := []*v1.Pod{newPod("modest"), privileged(newPod("mighty"))}
		r := newRig(t, rt, root).start()
		r.set(pods...)
		r.phase("uid-modest", v1.PodRunning, time.Minute)
		r.phase("uid-mighty", v1.PodRunning, time.Minute)
		<-time.After(10 * time.Second)
		r.stop()
		renamed := source.NewChannel(source.ChannelOptions{Name: "renamed", NodeName: "n1"})
		r = newRig(t, rt, root, func(c *podwright.Config) {
			c.Sources = append(c.Sources[:0], renamed)
			c.Admission.Sources = map[string]admission.SourcePolicy{"renamed": {Security: admission.SecurityBaseline}}
		}).start()
		if err := renamed.Set(t.Context(), pods); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "its refusal", func() error {
			if p := r.pod("uid-mighty"); p == nil || p.Status.Reason != admission.ReasonPodSecurity {
				return unmet(func() string { return r.explain("uid-mighty") })
			}
			return nil
		})
		<-time.After(time.Minute)
		r.phase("uid-modest", v1.PodRunning, time.Minute)
		if n := starts(rt, "uid-modest"); n != 1 {
			t.Errorf("it was started %d times", n)
		}
		if n := rt.Running("uid-mighty", "main"); n != 0 {
			t.Error("a pod runs that its source may not run")
		}
	})
}

// TestPodRefusedUnderASourceThatIsGone: PS6. What a source may not run, another one that names the UID after a restart may: the
// pod starts, and nothing of the refusal is left.
func TestPodRefusedUnderASourceThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root := fake.New(fake.Options{}), t.TempDir()
		mighty := privileged(newPod("mighty"))
		r := newTenancy(t, rt, root)
		r.set()
		r.asks(mighty)
		r.phase(mighty.UID, v1.PodFailed, time.Minute)
		<-time.After(10 * time.Second)
		r.stop()

		again := newRig(t, rt, root).start()
		again.set(mighty)
		again.phase(mighty.UID, v1.PodRunning, time.Minute)
		if p := again.pod(mighty.UID); p.Status.Reason != "" || starts(rt, mighty.UID) != 1 {
			t.Errorf("reason %q, %d starts", p.Status.Reason, starts(rt, mighty.UID))
		}
	})
}
