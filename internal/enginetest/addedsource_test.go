package enginetest_test

import (
	"context"
	"errors"
	"strings"
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

// TestAddedSourceBringsItsPolicy: PS4, PS8. A source that is added while the engine runs is
// governed by the policy that it brings or, if it brings none, by the policy of the others. An
// invalid policy, or one that comes with a name already taken, changes nothing.
func TestAddedSourceBringsItsPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Admission.Sources = map[string]admission.SourcePolicy{"": {Security: admission.SecurityBaseline}, "channel": {}}
		}).start()
		own := privileged(newPod("own"))
		r.set(own)
		add := func(name string, policy ...admission.SourcePolicy) (*source.Channel, error) {
			s := source.NewChannel(source.ChannelOptions{Name: name, NodeName: "n1"})
			return s, r.engine.AddSource(t.Context(), s, policy...)
		}
		for name, tc := range map[string]struct {
			policies []admission.SourcePolicy
			wrong    string
		}{
			"late":    {[]admission.SourcePolicy{{Security: "strict"}}, `there is no Pod Security level "strict"`},
			"twice":   {[]admission.SourcePolicy{{}, {}}, "has 2 policies"},
			"channel": {[]admission.SourcePolicy{{Security: admission.SecurityRestricted}}, `two sources are called "channel"`},
		} {
			if _, err := add(name, tc.policies...); err == nil || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, tc := range map[string]struct {
			policies []admission.SourcePolicy
			reason   string // of a privileged pod
		}{
			"late":    {nil, admission.ReasonPodSecurity},
			"trusted": {[]admission.SourcePolicy{{}}, ""},
			"none":    {[]admission.SourcePolicy{{Namespaces: []string{"other"}, OwnUIDs: true}}, admission.ReasonSourcePolicy},
		} {
			s, err := add(name, tc.policies...)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Set(t.Context(), []*v1.Pod{privileged(newPod(name))}); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			if uid := r.uidOf(name); tc.reason == "" {
				r.phase(uid, v1.PodRunning, time.Minute)
			} else {
				r.rejected(uid, tc.reason)
				if renamed := uid != newPod(name).UID; renamed != (name == "none") {
					t.Errorf("%s has the UID %s", name, uid)
				}
			}
		}
		r.set(own, privileged(newPod("next")))
		r.phase("uid-next", v1.PodRunning, time.Minute)
		r.stop()
		if err := r.engine.AddSource(context.Background(), source.NewChannel(source.ChannelOptions{Name: "last"})); err == nil {
			t.Error("a source was added to an engine that has ended")
		}
	})
}

// silentlyNamed is a source that does not say what it is called before it is released.
type silentlyNamed struct {
	*source.Channel
	release chan struct{}
}

func (s silentlyNamed) Name() string {
	<-s.release
	return s.Channel.Name()
}

// TestSourceThatIsBeingAddedHoldsNoOtherUp: R4. Sources are added one after the other; ctx bounds the wait for that, too.
func TestSourceThatIsBeingAddedHoldsNoOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fake.New(fake.Options{}), t.TempDir()).start()
		silent := silentlyNamed{source.NewChannel(source.ChannelOptions{Name: "silent"}), make(chan struct{})}
		added := make(chan error, 1)
		go func() { added <- r.engine.AddSource(t.Context(), silent) }()
		synctest.Wait()
		other, soon := source.NewChannel(source.ChannelOptions{Name: "other"}), time.Now().Add(time.Second)
		ctx, cancel := context.WithDeadline(t.Context(), soon)
		defer cancel()
		if err := r.engine.AddSource(ctx, other); !errors.Is(err, context.DeadlineExceeded) || !time.Now().Equal(soon) {
			t.Errorf("beside a source without an answer: %v", err)
		}
		close(silent.release)
		if err := errors.Join(<-added, r.engine.AddSource(t.Context(), other)); err != nil {
			t.Errorf("after its answer: %v", err)
		}
		r.stop()
	})
}

// TestUIDIsNotStolenWhileTheRecordsAreRead: PS6. One source is configured and another added, and the records are read slowly: the
// first does not get the UIDs of the other's pods.
func TestUIDIsNotStolenWhileTheRecordsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root, disk := fake.New(fake.Options{}), t.TempDir(), &checkpointtest.Disk{}
		agent := func(answers <-chan struct{}) (*rig, *source.Channel) {
			r := newRig(t, rt, root, func(c *podwright.Config) { c.Checkpoints.Store = slowRecords{checkpoint.NewFiles(disk), answers} })
			trusted := source.NewChannel(source.ChannelOptions{Name: "trusted", NodeName: "n1"})
			if err := r.engine.AddSource(t.Context(), trusted); err != nil {
				t.Fatal(err)
			}
			return r.start(), trusted
		}
		own, thief := newPod("own"), newPod("thief")
		thief.UID = own.UID
		answers := make(chan struct{})
		close(answers)
		r, trusted := agent(answers)
		r.set()
		if err := trusted.Set(t.Context(), []*v1.Pod{own}); err != nil {
			t.Fatal(err)
		}
		r.phase(own.UID, v1.PodRunning, time.Minute)
		<-time.After(10 * time.Second)
		r.stop()

		slow := make(chan struct{})
		r, trusted = agent(slow)
		go func() { _ = r.source.Set(t.Context(), []*v1.Pod{thief}) }()
		<-time.After(time.Second)
		go func() { _ = trusted.Set(t.Context(), []*v1.Pod{own}) }()
		<-time.After(15 * time.Second)
		close(slow)
		<-time.After(15 * time.Second)
		if p := r.pod(own.UID); p == nil || p.Name != "own" || starts(rt, own.UID) != 1 {
			t.Errorf("the UID has %v", p)
		}
	})
}
