package recovery

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// cache has an old and a fresh view of one pod.
type cache struct {
	old, fresh      *runtime.PodStatus
	oldErr, readErr error
	unsynced        bool
	reads           int
}

func (c *cache) Get(types.UID) (*runtime.PodStatus, error) { return c.old, c.oldErr }
func (c *cache) ReadNow(context.Context, types.UID) (*runtime.PodStatus, error) {
	c.reads++
	return c.fresh, c.readErr
}
func (c *cache) Synced() bool { return !c.unsynced }

func viewOf(state runtime.State) *runtime.PodStatus {
	return &runtime.PodStatus{Containers: []*runtime.ContainerStatus{{ID: runtime.ContainerID{Runtime: "x", ID: "c"}, State: state}}}
}

// The end of a container comes from the cache if that has it, else from the runtime (B12).
func TestEndIsReadBeforeTheRecordGoes(t *testing.T) {
	broken := errors.New("broken")
	exited, runs, empty := viewOf(runtime.Exited), viewOf(runtime.Running), &runtime.PodStatus{}
	for name, test := range map[string]struct {
		cache cache
		found bool
		reads int
		err   error
	}{
		"cached":          {cache{old: exited}, true, 0, nil},
		"cached as alive": {cache{old: runs, fresh: exited}, true, 1, nil},
		"not cached":      {cache{old: empty, fresh: exited}, true, 1, nil},
		"never read":      {cache{oldErr: broken, fresh: exited}, true, 1, nil},
		"gone":            {cache{old: empty, fresh: empty}, false, 1, nil},
		"unreadable":      {cache{old: empty, readErr: broken}, false, 1, broken},
	} {
		ends := Ends{Cache: &test.cache, Message: func(*runtime.ContainerStatus) string { return "said" }}
		c, err := ends.Of(t.Context(), "web", runtime.ContainerID{Runtime: "x", ID: "c"})
		if !errors.Is(err, test.err) || test.cache.reads != test.reads || (c != nil) != test.found {
			t.Errorf("%s: %v, %v after %d reads", name, c, err, test.cache.reads)
		}
		if c != nil && c.Message != "said" {
			t.Errorf("%s: message %q", name, c.Message)
		}
	}
	if exited.Containers[0].Message != "" {
		t.Error("the cached container was changed")
	}
}
