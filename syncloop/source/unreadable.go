package source

import (
	"errors"
	"path/filepath"

	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/syncloop"
)

var _ syncloop.ProblemReporter = (*File)(nil)

// Unreadable returns the manifests that have a problem, in the form that the engine lists. It
// omits those with a field this version does not know: their pods run without it.
func (f *File) Unreadable() []problem.Problem {
	var out []problem.Problem
	for _, m := range f.Problems() {
		if m.root || m.warning() {
			continue // the folder's problem is in Health
		}
		p := problem.Problem{
			Kind: problem.Source, Severity: problem.Listed, Name: filepath.Base(m.Path), Since: m.Since,
			Waits: "its manifest " + m.Path + " to be mended", Advice: "mend the manifest; no pod runs from it",
		}
		switch {
		case errors.Is(m.Err, ErrTooMany):
			p.Waits, p.Advice = "the rest of the files in "+m.Path+" to be read", "move files elsewhere or raise the limit; the pods that are known run"
		case m.Pod != nil:
			p.UID, p.Advice = m.Pod.UID, "mend the manifest; its last good version runs"
		case errors.Is(m.Err, ErrOtherKind):
			p.Advice = "move the file elsewhere: the engine runs pods only"
		case errors.Is(m.Err, ErrSkipped):
			p.Advice = "move the file elsewhere: it is not read"
		}
		out = append(out, p.Because(m.Err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.goneSince.IsZero() {
		out = append(out, problem.Problem{
			Kind: problem.Source, Severity: problem.Listed, Name: filepath.Base(f.path), Since: f.goneSince,
			Waits:  "the folder " + f.path + ", which is not there any more, to come back",
			Advice: "make the folder, or bring it back; until then it counts as empty, and its pods are stopped",
		})
	}
	return out
}
