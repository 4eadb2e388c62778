package syncloop

import (
	"errors"
	"fmt"
	"time"

	"github.com/podwright/podwright/internal/problem"
)

// leftOut are the pods that another one keeps from their name or UID (M4, PS6). They appear nowhere else:
// their one event is soon forgotten.
type leftOut map[leftOutKey]leftOutPod

type leftOutKey struct {
	source  string
	refusal refusal
}

type leftOutPod struct {
	since time.Time
	why   string
}

// follow brings the list up to date after a message. reports are what it refused for the first time.
func (l leftOut) follow(sources []*wanted, reports []report, now time.Time) {
	for _, r := range reports {
		if r.refusal.why == "" {
			l[leftOutKey{r.source, r.refusal}] = leftOutPod{now, r.lost()}
		}
	}
	if len(l) == 0 {
		return
	}
	stays := map[leftOutKey]struct{}{}
	for _, s := range sources {
		for r := range s.reported {
			stays[leftOutKey{s.name, r}] = struct{}{}
		}
	}
	for k := range l {
		if _, ok := stays[k]; !ok {
			delete(l, k)
		}
	}
}

// problems lists the pods. A pod that comes over from another source waits for the end of its former life:
// only after a while is something wrong.
func (l leftOut) problems(now time.Time) (out []problem.Problem) {
	for k, pod := range l {
		if k.refusal.by != k.source && now.Sub(pod.since) < problem.SourceLimit {
			continue
		}
		lacks := "name"
		if k.refusal.noUID || k.refusal.winner == k.refusal.uid {
			lacks = "UID"
		}
		p := problem.Problem{
			Kind: problem.Source, Severity: problem.Listed, Name: problem.Of(k.refusal.name.namespace, k.refusal.name.name, ""), Since: pod.since,
			Waits: "its " + lacks, Advice: "give one of the two pods another " + lacks + ", or take one away; until then this one does not run",
		}
		if k.refusal.noUID {
			p.Advice = "give the pod a UID that is its own and can be the name of a folder; until then it does not run"
		}
		out = append(out, p.Because(errors.New(pod.why)))
	}
	return out
}

// lost says which pod was left out, and which one has its name or UID.
func (r *report) lost() string {
	if r.refusal.noUID {
		return fmt.Sprintf("pod %s/%s of source %q is left out: its UID %q is empty, or cannot be the name of a folder",
			r.refusal.name.namespace, r.refusal.name.name, r.source, r.refusal.uid)
	}
	reason := fmt.Sprintf("its full name belongs to a pod (UID %s)", r.refusal.winner)
	if r.refusal.winner == r.refusal.uid {
		reason = fmt.Sprintf("its UID belongs to pod %s/%s", r.winner.namespace, r.winner.name)
	}
	return fmt.Sprintf("pod %s/%s (UID %s) of source %q is left out: %s of source %q",
		r.refusal.name.namespace, r.refusal.name.name, r.refusal.uid, r.source, reason, r.refusal.by)
}

// missing returns the problems of the pods that are left out.
func (x *mux) missing(now time.Time) []problem.Problem {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.leftOut.problems(now)
}
