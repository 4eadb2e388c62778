package enginetest_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// The engine shows the log of the run that the pod's status refers to, across its rotations, and the
// log of the run before. If there is no log, it says why (spec/runtime.md 27.3, 27.7).
func TestContainerLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		rt := fake.New(fake.Options{WriteLogs: true, Script: func(fake.Launch) fake.Script {
			runs++
			script := fake.Script{Log: []fake.Line{{Text: fmt.Sprintf("run %d", runs)}, {Every: time.Second, Text: "tick"}}}
			if runs == 1 {
				script.Exit = &fake.Exit{After: 5500 * time.Millisecond, Code: 1}
			}
			return script
		}})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Storage.LogRotation = pods.LogRotation{MaxSize: 500, MaxFiles: 3, Period: 5 * time.Second}
		}).start()
		pod := newPod("web")
		r.set(pod)
		r.within(time.Minute, "the second run", func() error {
			if s := r.pod(pod.UID).Status.ContainerStatuses; len(s) == 0 || s[0].RestartCount != 1 || s[0].State.Running == nil {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		<-time.After(25500 * time.Millisecond)
		synctest.Wait()
		show := func(uid types.UID, container string, options containerlog.Options) string {
			var out bytes.Buffer
			if err := r.engine.ContainerLog(t.Context(), uid, container, options, &out); err != nil {
				return "error: " + err.Error()
			}
			return out.String()
		}
		if got, want := show(pod.UID, "main", containerlog.Options{Previous: true}), "run 1\ntick\ntick\ntick\ntick\ntick\ntick\n"; got != want {
			t.Errorf("previous run: %q, want %q", got, want)
		}
		got := show(pod.UID, "main", containerlog.Options{})
		if n := bytes.Count([]byte(got), []byte("tick\n")); got[:6] != "run 2\n" || n < 26 || n > 27 {
			t.Errorf("running: %d ticks: %q", n, got)
		}
		tail := int64(2)
		if got := show(pod.UID, "main", containerlog.Options{Tail: &tail}); got != "tick\ntick\n" {
			t.Errorf("tail: %q", got)
		}
		var out bytes.Buffer
		for name, tc := range map[string]struct {
			uid       types.UID
			container string
			want      error
		}{"unknown pod": {"other", "main", runtime.ErrNotFound}, "unknown container": {pod.UID, "other", runtime.ErrNotFound}} {
			if err := r.engine.ContainerLog(t.Context(), tc.uid, tc.container, containerlog.Options{}, &out); !errors.Is(err, tc.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if r.pod(pod.UID).Status.Phase != v1.PodRunning {
			t.Error("the pod does not run")
		}
	})
}
