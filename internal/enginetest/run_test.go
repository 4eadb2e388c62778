package enginetest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// TestTwentyEnginesShareNothing except one process and one runtime.
func TestTwentyEnginesShareNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		root := t.TempDir()
		var rigs []*rig
		for i := range 20 {
			owner := fmt.Sprintf("engine-%d", i)
			r := newRig(t, rt, filepath.Join(root, owner), func(c *podwright.Config) { c.Node.OwnerID = owner }).start()
			r.set(newPod(owner), newPod(owner+"-b"))
			rigs = append(rigs, r)
		}
		for i, r := range rigs {
			r.phase(types.UID(fmt.Sprintf("uid-engine-%d", i)), v1.PodRunning, 30*time.Second)
			r.phase(types.UID(fmt.Sprintf("uid-engine-%d-b", i)), v1.PodRunning, 30*time.Second)
			if n := len(r.engine.Pods()); n != 2 {
				t.Errorf("engine %d shows %d pods", i, n)
			}
		}
		// One of them removes its pods; the others do not notice.
		rigs[7].set()
		<-time.After(time.Minute)
		synctest.Wait()
		sandboxes, err := rt.ListPodSandbox(t.Context(), nil)
		if err != nil || len(sandboxes) != 38 {
			t.Errorf("%d sandboxes (%v), want 38", len(sandboxes), err)
		}
	})
}

// TestSecondRunIsAnError: a second Run is an error, and so is a second engine on one folder.
func TestSecondRunIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		r := newRig(t, fake.New(fake.Options{}), root).start()
		r.set()
		<-r.engine.Ready()
		if err := r.engine.Run(t.Context()); !errors.Is(err, podwright.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		other := newRig(t, fake.New(fake.Options{}), root)
		if err := other.engine.Run(t.Context()); !errors.Is(err, podwright.ErrInUse) {
			t.Errorf("second engine on one folder: %v", err)
		}
	})
}

// TestClosedSourceEndsRun: when its only source is closed, the engine ends and leaves its pods
// running.
func TestClosedSourceEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		if err := r.source.Close(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		<-r.ended
		if rt.Running("uid-web", "main") != 1 {
			t.Error("the pod does not run any more")
		}
	})
}

func TestConfigReportsEveryProblem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	_, err := podwright.New(podwright.Config{
		RootDir: "relative", Node: podwright.Node{Name: "Not A Name", IPs: []string{"10.0.0.256"}},
		Workers: podworkers.Options{SyncFrequency: -1, Events: &events{}},
		Observe: podwright.Observe{Sinks: []status.StatusSink{nil}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Runtime is required", "Images is required", "Sources is empty", "Sinks[0]", `RootDir "relative"`, "Not A Name", "Node.IPs[0]", "Workers.SyncFrequency is negative", "Workers.Events is set by the engine: use Observe.Events"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	rt := fake.New(fake.Options{})
	if err := writeFile(file); err != nil {
		t.Fatal(err)
	}
	_, err = podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{source.NewChannel(source.ChannelOptions{})},
		RootDir: filepath.Join(file, "below"), Node: podwright.Node{Name: "n1"},
	})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a folder below a file: %v", err)
	}
}
