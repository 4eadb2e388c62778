package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/source"
)

// TestRenamedPodGivesItsNameUpUnheard: M5, R3. A pod gets another name under its UID while another source has not been heard. The
// old pod ends all the same: the sandbox of its name does not become the new pod's, and the next pod of that name runs.
func TestRenamedPodGivesItsNameUpUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		silent := source.NewChannel(source.ChannelOptions{Name: "silent", NodeName: "n1"})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Sources = append(c.Sources, silent) }).start()
		r.set(newPod("a"))
		r.phase("uid-a", v1.PodRunning, time.Minute)
		renamed, next := newPod("b"), newPod("a")
		renamed.UID, next.UID = "uid-a", "uid-next"
		r.set(renamed, next)
		<-time.After(30 * time.Second)
		if err := silent.Set(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		r.phase("uid-next", v1.PodRunning, time.Minute)
		r.phase("uid-a", v1.PodRunning, time.Minute)
		r.within(time.Minute, "both pods under their names", func() error {
			sandboxes, err := rt.ListPodSandbox(t.Context(), nil)
			names := map[string]string{}
			for _, s := range sandboxes {
				if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
					names[s.Metadata.Uid] = s.Metadata.Name
				}
			}
			if names["uid-a"] != "b" || names["uid-next"] != "a" {
				return fmt.Errorf("sandboxes: %v, %w", names, err)
			}
			return nil
		})
	})
}
