package enginetest_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
)

// TestWrongKeyHarmsNoPod (CK12): an agent starts with a key other than the one that sealed the
// records. Running pods continue, and the engine names the missing key. Once it has that key,
// everything is as before: a job that ended does not run again.
func TestWrongKeyHarmsNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second, Code: 7}}}))
		pods := func() []*v1.Pod {
			return []*v1.Pod{newPod("web"), withPolicy(newPod("job", "job"), v1.RestartPolicyNever)}
		}
		right, wrong := checkpointtest.Key(t, 1), checkpointtest.Key(t, 2)
		first := n.agent(withKeys(right))
		first.set(pods()...)
		first.phase("uid-web", v1.PodRunning, time.Minute)
		first.phase("uid-job", v1.PodFailed, time.Minute)
		<-time.After(5 * time.Second)
		for _, name := range n.disk.Names() {
			if data, err := n.disk.Read(name, 1<<20); err != nil || bytes.Contains(data, []byte("uid-")) {
				t.Errorf("%s can be read: %v", name, err)
			}
		}
		n.kill(first)

		second := n.agent(withKeys(wrong)) // its source is silent
		<-time.After(time.Minute)
		if text := errors.Join(second.problems()); text == nil || !strings.Contains(text.Error(), "sealed with key "+right.ID()+"; the keys given are: "+wrong.ID()) {
			t.Errorf("problems: %v", text)
		}
		if f := n.rt.Facts("uid-web", "main"); f.Running != 1 || f.Started != 1 {
			t.Errorf("without its record: %+v", f)
		}
		n.kill(second)

		n.rt.LoseRecords() // now only the record knows about the job
		third := n.agent(withKeys(wrong, right))
		third.set(pods()...)
		third.phase("uid-web", v1.PodRunning, time.Minute)
		third.phase("uid-job", v1.PodFailed, time.Minute)
		<-time.After(time.Minute)
		if end := third.pod("uid-job").Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 7 {
			t.Errorf("the job: %+v", end)
		}
		if started := starts(n.rt, "uid-job"); started != 1 {
			t.Errorf("the job was started %d times", started)
		}
		if err := third.problems(); err != nil {
			t.Error(err)
		}
	})
}

// TestForgedRecordEndsNoPod (CK12): somebody without the key replaces a pod's record by one which says that the pod
// has ended. This does not end the pod.
func TestForgedRecordEndsNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := newHost(t, byContainer(map[string]fake.Script{"main": {Exit: &fake.Exit{After: time.Second}}}))
		r := ended.agent()
		r.set(withPolicy(newPod("web"), v1.RestartPolicyNever))
		r.phase("uid-web", v1.PodSucceeded, time.Minute)
		<-time.After(5 * time.Second)
		forged, err := ended.disk.Read("uid-web", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		r.stop()

		for _, keys := range []func(*podwright.Config){withKeys(), func(c *podwright.Config) { withKeys(checkpointtest.Key(t, 1))(c); c.Checkpoints.TrustPlain = false }} {
			n := newHost(t, fake.New(fake.Options{}))
			first := n.agent(keys)
			first.set(withPolicy(newPod("web"), v1.RestartPolicyNever))
			first.phase("uid-web", v1.PodRunning, time.Minute)
			n.kill(first)
			n.disk.Put("uid-web", forged, 0o600)
			var c podwright.Config
			keys(&c)
			want := len(c.Checkpoints.Keys) // without keys the engine stops the pod, because the record says that it has ended
			second := n.agent(keys)
			second.set(withPolicy(newPod("web"), v1.RestartPolicyNever))
			<-time.After(time.Minute)
			if got := n.rt.Running("uid-web", "main"); got != want {
				t.Errorf("%d keys: %d containers run, want %d", len(c.Checkpoints.Keys), got, want)
			}
			second.stop()
		}
	})
}
