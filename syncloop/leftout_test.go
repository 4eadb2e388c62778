package syncloop

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/podwright/podwright/internal/problem"
)

// TestLeftOutPodsAreProblems: IN2, M4, M9, PS6. Two pods with one UID, and a pod whose name another source has, are listed
// for as long as that lasts; their event is soon forgotten.
func TestLeftOutPodsAreProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, file, l := newScripted("api"), newScripted("file"), &log{}
		api.precedence = PrecedenceAPI
		loop, stop := run(t, l, Options{Sources: []Source{api, file}, Recorder: l})
		defer stop()
		listed := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, p := range loop.Problems() {
				if p.Kind != problem.Source || p.Severity != problem.Listed || p.Advice == "" || p.UID != "" {
					t.Errorf("%s: %+v", when, p)
				}
				got = append(got, p.Name+" waits for "+p.Waits+": "+p.Cause)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", when, diff)
			}
		}
		const (
			uid  = `default/db waits for its UID: pod default/db (UID a) of source "file" is left out: its UID belongs to pod default/web of source "file"`
			name = `default/web waits for its name: pod default/web (UID p) of source "api" is left out: its full name belongs to a pod (UID a) of source "file"`
		)
		api.set()
		file.set(newPod("a", "web"), newPod("a", "db"))
		listed("two pods of a folder have one UID", uid)
		api.set(newPod("p", "web"))
		listed("another source may still let go of a name", uid)
		pass(problem.SourceLimit)
		listed("it does not", uid, name)
		file.set(newPod("a", "web"))
		listed("one is mended", name)
		file.set(newPod("", "web"), newPod("../x", "db"), newPod("a", "cache"))
		const none = `" is empty, or cannot be the name of a folder`
		listed("two pods have no possible UID", `default/db waits for its UID: pod default/db of source "file" is left out: its UID "../x`+none,
			`default/web waits for its UID: pod default/web of source "file" is left out: its UID "`+none)
		file.set()
		listed("all are mended")
	})
}
