package recovery

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestPodWithoutUIDReachesTheLoop: M9, PS8. The node makes no UID from none: the loop leaves such a pod out, and says so.
func TestPodWithoutUIDReachesTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, own := newRig(t, newDisk()).keep(), newFileSource()
		s, err := NewOwnUIDs(filepath.Join(t.TempDir(), "key"), func(string) bool { return true }).Wrap(own)
		if err != nil {
			t.Fatal(err)
		}
		var d deliveries
		d.run(r, s)
		own.sets <- []*v1.Pod{newPod(""), nil, newPod("u")}
		pass(time.Second)
		if all := d.all(); len(all) != 1 || len(all[0]) != 2 || all[0][0] != "" || len(all[0][1]) != 32 {
			t.Errorf("delivered: %q", all)
		}
	})
}
