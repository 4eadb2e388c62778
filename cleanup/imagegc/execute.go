package imagegc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podwright/podwright/internal/problem"
)

// execution removes the images of one run.
type execution struct {
	*Collector
	report   *Report
	in       input
	began    time.Time
	removals int
	tookLong int
	problems []error
	// early says why the run ends before all has been tried.
	early error
}

// errGivesWay ends a run for one under pressure, which removes what is left and more.
var errGivesWay = errors.New("a run under pressure waits")

// execute removes images in the order of the plan, and last those whose removal took too long the last
// time and those for which Options.Permits needs time. A spare is removed only in place of an image
// that could not be removed. early is why the run has ended before all was tried; that is no failure.
func (c *Collector) execute(ctx context.Context, r *Report, in input) (err, early error) {
	x := &execution{Collector: c, report: r, in: in, began: c.options.Clock.Now()}
	for open := c.hungLast(r.Plan.Choices); ; {
		if open, err = x.remove(ctx, open); err != nil {
			return err, nil
		}
		if len(open) == 0 || x.early != nil || c.options.Clock.Since(x.began) >= problem.FunctionLimit {
			break
		}
		if !c.pause(ctx) {
			return ctx.Err(), nil
		}
	}
	if r.Plan.ToFree > r.Freed && !in.Pressure && !errors.Is(x.early, errGivesWay) {
		x.problems = append(x.problems, fmt.Errorf("%d bytes had to be freed, but only %d were", r.Plan.ToFree, r.Freed))
		c.event("FreeDiskSpaceFailed", "the image file system is fuller than %d %%: %d bytes had to be freed, but only %d were",
			in.Policy.HighPercent, r.Plan.ToFree, r.Freed)
	}
	if len(r.Removed) > 0 {
		c.options.Logger.Info("Images removed", "images", len(r.Removed), "bytes", r.Freed)
	}
	c.left(ctx, r)
	return errors.Join(x.problems...), x.early
}

// hungLast returns what may be removed, in the order of the plan, except that an image whose removal
// took too long is tried after the others: a few such images must not keep every run from the rest.
func (c *Collector) hungLast(choices []Choice) []Choice {
	var first, last []Choice
	hung := map[string]bool{}
	for _, choice := range choices {
		switch {
		case c.hung[choice.Image.Key]:
			hung[choice.Image.Key] = true
			last = append(last, choice)
		default:
			first = append(first, choice)
		}
	}
	c.hung = hung // without images that have gone meanwhile
	return slices.DeleteFunc(append(first, last...), func(choice Choice) bool { return !choice.Remove && !choice.Spare })
}

// remove removes what should go and is permitted, and returns the choices that are still undecided.
func (x *execution) remove(ctx context.Context, choices []Choice) (open []Choice, err error) {
	for i, choice := range choices {
		if ctx.Err() != nil { // a runtime may not hear that, and its caller no longer waits
			return nil, ctx.Err()
		}
		if choice.Cause == causeSpace && !x.in.Pressure && x.report.Freed >= x.report.Plan.ToFree || x.wanted(choice.Image) {
			continue
		}
		if permitted, undecided := x.permits(choice); !permitted {
			if undecided {
				open = append(open, choice)
			}
			continue
		}
		if x.early = x.ends(len(choices) - i + len(open)); x.early != nil {
			return nil, nil
		}
		if x.removals++; x.removals > perSecond {
			if !x.pause(ctx) {
				return nil, ctx.Err()
			}
			if x.wanted(choice.Image) { // since the pause began
				continue
			}
		}
		x.try(ctx, choice)
	}
	return open, nil
}

// ends returns why the run must not begin another removal, nil if it may.
func (x *execution) ends(left int) error {
	switch {
	case !x.in.Pressure && x.reclaims.Load() > 0:
		return fmt.Errorf("%d images were not tried: %w", left, errGivesWay)
	case x.tookLong >= maxHung:
		return fmt.Errorf("%d images were not tried: %d removals took too long", left, x.tookLong)
	case x.in.Pressure && x.options.Clock.Since(x.began) >= reclaimTime:
		return fmt.Errorf("%d images were not tried in %v", left, reclaimTime)
	}
	return nil
}

// try removes one image.
func (x *execution) try(ctx context.Context, choice Choice) {
	limit := removeTimeout
	if x.in.Pressure {
		limit = quickTimeout
	}
	if err := x.Collector.remove(ctx, choice, limit); err != nil {
		if x.hung[choice.Image.Key] {
			x.tookLong++
		}
		x.problems = append(x.problems, fmt.Errorf("remove image %s: %w", title(choice.Image), err))
		return
	}
	x.report.Removed = append(x.report.Removed, choice.Image.Key)
	x.report.Freed += choice.Image.Size
}

func (x *execution) permits(choice Choice) (permitted, open bool) {
	if x.options.Permits == nil {
		return true, false
	}
	return x.options.Permits(choice, x.in.Now)
}

// wanted reports, right before an image is removed, whether a pod wants it by now (DR1).
func (c *Collector) wanted(i Image) bool {
	return c.options.Desired != nil && slices.ContainsFunc(c.options.Desired(), func(name string) bool { return matches(i, name) })
}
