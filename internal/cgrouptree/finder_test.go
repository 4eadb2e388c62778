package cgrouptree

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// idA to idC are IDs as runtimes give them.
var idA, idB, idC = strings.Repeat("a1", 32), strings.Repeat("b2", 32), strings.Repeat("c3", 32)

func folders(t *testing.T, root string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Join(root, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// finderOf returns a finder for a folder with these cgroups in it, and its clock.
func finderOf(t *testing.T, paths ...string) (*Finder, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := NewFinder(t.TempDir(), clock)
	folders(t, f.Top, paths...)
	return f, clock
}

func ids(list ...string) map[string]bool {
	out := map[string]bool{}
	for _, id := range list {
		out[id] = true
	}
	return out
}

// TestFind (runtime.md 28.1, kube.md KV1): cgroups are found by their IDs, whatever runtime and driver named them, also below
// folders that are named like containers, as that in which the agent runs or that of a pod with a UID of its own kind. What is in
// the cgroup of a container is not another one.
func TestFind(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth)
	for name, c := range map[string]struct {
		paths         []string
		wanted, known []string
		want          map[string]string
	}{
		"by names of both drivers": {
			[]string{"system.slice/ssh.service", "k8s.io/" + idA, "pods.slice/podx.slice/cri-containerd-" + idB + ".scope", "machine/libpod-" + idC},
			[]string{idA, idB, idC, "none"},
			nil,
			map[string]string{idA: "k8s.io/" + idA, idB: "pods.slice/podx.slice/cri-containerd-" + idB + ".scope", idC: "machine/libpod-" + idC},
		},
		"short IDs, and IDs of several words": {
			[]string{"k8s.io/aaa", "podx/x-bbb", "podx/ccc-1"},
			[]string{"aaa", "bbb", "ccc-1"},
			nil,
			map[string]string{"aaa": "k8s.io/aaa", "bbb": "podx/x-bbb", "ccc-1": "podx/ccc-1"},
		},
		"not the monitor's": {[]string{"podx/crio-conmon-" + idA + ".scope", "podx/crio-" + idA + ".scope"}, []string{idA}, nil, map[string]string{idA: "podx/crio-" + idA + ".scope"}},
		"in a container": {
			[]string{"a/" + idC + "/b/" + idC + "/" + idA, "podx-" + idC[:32] + "/" + idB},
			[]string{idA, idB},
			nil,
			map[string]string{idA: "a/" + idC + "/b/" + idC + "/" + idA, idB: "podx-" + idC[:32] + "/" + idB},
		},
		"in a known container":           {[]string{"a/" + idC + "/" + idA, "x-" + idB + ".scope/" + idA}, []string{idA}, []string{idB, idC}, map[string]string{}},
		"in a wanted container":          {[]string{"a/" + idC + "/x-" + idA, "b/" + idA}, []string{idA, idC}, nil, map[string]string{idA: "b/" + idA, idC: "a/" + idC}},
		"in an unknown container, twice": {[]string{"a/" + idC + "/x-" + idA, "b/" + idA}, []string{idA, idB}, nil, map[string]string{idA: "b/" + idA}},
		"too deep":                       {[]string{deep + "d/" + idA, deep + idB}, []string{idA, idB}, nil, map[string]string{idB: deep + idB}},
	} {
		f, _ := finderOf(t, c.paths...)
		if found, complete := f.Find(ids(c.wanted...), ids(c.known...)); !maps.Equal(found, c.want) || !complete {
			t.Errorf("%s: found %v, complete %t, want %v", name, found, complete, c.want)
		}
	}
	if found, complete := NewFinder("", nil).Find(ids(idA), nil); len(found) > 0 || !complete {
		t.Errorf("without cgroups: %v, complete %t", found, complete)
	}
}

// TestCrowd (runtime.md 28.1): a container that nests cgroups hides no other one. A search that ends early because there are too
// many others is not complete, and the next ones come less and less often.
func TestCrowd(t *testing.T) {
	const most = 100
	f, clock := finderOf(t, "pods/podz/"+idB)
	f.Most = most
	crowd := func(dir string) {
		for i := range most {
			folders(t, f.Top, fmt.Sprint(dir, "/", i))
		}
	}
	crowd("pods/poda/" + idA)
	if found, complete := f.Find(ids(idB), nil); found[idB] == "" || !complete {
		t.Errorf("a container beside one with a crowd is not found, complete %t", complete)
	}
	crowd("a.slice")
	searches := 0
	for range 360 {
		began := f.ended
		if _, complete := f.Find(ids(idB), nil); complete {
			t.Fatal("a search that ended early is complete")
		}
		if f.ended != began {
			searches++
		}
		clock.Step(firstPause)
	}
	if searches < 12 || searches > 20 {
		t.Errorf("in an hour: %d searches", searches)
	}
	if err := os.RemoveAll(filepath.Join(f.Top, "a.slice")); err != nil {
		t.Fatal(err)
	}
	clock.Step(maxPause)
	if found, complete := f.Find(ids(idB), nil); found[idB] == "" || !complete || f.pause != 0 {
		t.Errorf("once the crowd is gone: %v, complete %t, pause %v", found, complete, f.pause)
	}
}
