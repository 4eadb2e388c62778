package cleanup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/internal/timing"
)

// remove executes the removals of a plan. Each pass does a bounded part, so that a mountain of
// leftovers never delays the next pass for long (OD10); one failure does not stop the others
// (HI12).
func (h *Housekeeper) remove(ctx context.Context, plan Plan, now time.Time) (problems []error) {
	seen := map[candidate]bool{}
	more := false
	// Content goes first: it releases what the runtime still uses of a folder.
	for _, step := range []Step{StepContent, StepLogs, StepDirectories, StepUserRanges, StepCgroups} {
		start, acted := h.options.Clock.Now(), 0
		begun := timing.Batch{Clock: h.options.Clock}
		for _, a := range h.turns(plan, step) {
			c := candidate{step, a.PodUID}
			seen[c] = true
			if !a.Allowed() || ctx.Err() != nil {
				continue
			}
			if denial := h.guard(a.PodUID); !denial.IsZero() {
				h.skip(a, denial)
				continue
			}
			if h.contentFirst(c) {
				h.skip(a, rule.TryLater.Because("what the runtime has of the pod goes first"))
				continue
			}
			if len(h.underWay) >= maxRemovals {
				h.skip(a, rule.TryLater.Because("too many removals hang"))
				continue
			}
			if acted > 0 && h.options.Clock.Since(start) > removalBudget {
				more = true
				h.skip(a, passTooLong())
				continue
			}
			if !h.permits(a) {
				continue
			}
			acted++
			r := h.begin(ctx, a)
			h.underWay[c] = r
			if begun.Add(ctx, r.done) { // what takes longer continues beside the passes
				problems = append(problems, h.takeResults(now)...)
			}
		}
		begun.Wait(ctx)
		problems = append(problems, h.takeResults(now)...)
	}
	h.forget(seen, now)
	h.metrics.directories(ctx, plan, h.failures)
	if more {
		h.again()
	}
	return problems
}

// contentFirst reports whether a leftover has to stay until the pod's content is gone, because the
// removal of that was delayed or is in progress: an attempt now would fail, and count as a separate
// failure. If the removal of the content failed, the collector may have removed the content since.
func (h *Housekeeper) contentFirst(c candidate) bool {
	content := candidate{StepContent, c.PodUID}
	return c != content && h.content.Has(c.PodUID) && h.failures[content] == nil
}

// again asks for another pass soon.
func (h *Housekeeper) again() {
	if h.options.Again != nil {
		h.options.Again()
	}
}

// turns returns the actions of a step in the order in which they are tried: those that have not
// failed, then those whose retry was due first. Otherwise, failing actions early in the plan would
// use up the rates and the others would wait forever (OD10, HI12).
func (h *Housekeeper) turns(plan Plan, step Step) (actions []Action) {
	for _, a := range plan.Actions {
		if a.Step == step {
			actions = append(actions, a)
		}
	}
	retry := func(a Action) (at time.Time) {
		if f := h.failures[candidate{step, a.PodUID}]; f != nil {
			at = f.retry
		}
		return at
	}
	slices.SortStableFunc(actions, func(a, b Action) int { return retry(a).Compare(retry(b)) })
	return actions
}

// forget drops the records of what is no longer a candidate.
func (h *Housekeeper) forget(seen map[candidate]bool, now time.Time) {
	for c, f := range h.failures {
		// Log folders are not looked at in every pass.
		if !seen[c] && (c.Step != StepLogs || now.Sub(f.retry) > retryMax) {
			delete(h.failures, c)
		}
	}
	for uid := range h.content {
		if _, desired := h.pods.Get(uid); desired {
			h.content.Delete(uid) // it came back; its next end will be reported
		}
	}
}

func (h *Housekeeper) removeOne(ctx context.Context, c candidate) error {
	switch c.Step {
	case StepContent:
		return h.options.Content.RemovePod(ctx, c.PodUID)
	case StepLogs:
		return h.options.Content.RemoveLogs(ctx, c.PodUID)
	case StepUserRanges:
		return h.options.UserRanges.ReleaseUserRange(c.PodUID)
	case StepCgroups:
		return h.options.Cgroups.Destroy(ctx, c.PodUID)
	default:
		return h.options.Content.RemovePodDir(ctx, c.PodUID)
	}
}

// failed delays the next attempt: 5 s, doubling up to 5 min.
func (h *Housekeeper) failed(c candidate, r *removal, now time.Time) {
	f := h.failures[c]
	if f == nil {
		f = &failure{object: r.action.Object.String(), since: r.since}
		h.failures[c] = f
	}
	f.err, f.slow = r.err, r.slow
	f.delay = backoff.Next(retryMin, retryMax, f.delay)
	f.retry = now.Add(f.delay)
}

// putOff returns the candidates that are left alone for now, and why.
func (h *Housekeeper) putOff() map[candidate]Denial {
	out := map[candidate]Denial{}
	now := h.options.Clock.Now()
	for c, f := range h.failures {
		if now.Before(f.retry) {
			out[c] = h.waiting(f, now)
		}
	}
	for c, r := range h.underWay {
		out[c] = r.goesOn()
	}
	return out
}

// waiting says why a candidate whose removal failed is left alone for now.
func (h *Housekeeper) waiting(f *failure, now time.Time) Denial {
	d := Denial{Why: fmt.Sprintf("failed, next try in %s: %v", f.retry.Sub(now).Round(time.Second), f.err)}
	if h.options.Rule != nil {
		d.Rule = h.options.Rule(f.err)
	}
	d.Rule = cmp.Or(d.Rule, rule.TryLater)
	return d
}
