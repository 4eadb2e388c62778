package imagegc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podwright/podwright/internal/problem"
)

// execution removes the images of one run.
type execution struct {
	*Collector
	report   *Report
	in       input
	removals int
	problems []error
}

// execute removes images in the order of the plan, and last those for which Options.Permits needs
// time. A spare is removed only in place of an image that could not be removed.
func (c *Collector) execute(ctx context.Context, r *Report, in input) error {
	x := &execution{Collector: c, report: r, in: in}
	until := c.options.Clock.Now().Add(problem.FunctionLimit)
	for open := r.Plan.Choices; ; {
		var err error
		if open, err = x.remove(ctx, open); err != nil {
			return err
		}
		if len(open) == 0 || !c.options.Clock.Now().Before(until) {
			break
		}
		if !c.pause(ctx) {
			return ctx.Err()
		}
	}
	if r.Plan.ToFree > r.Freed && !in.Pressure {
		x.problems = append(x.problems, fmt.Errorf("%d bytes had to be freed, but only %d were", r.Plan.ToFree, r.Freed))
		c.event("FreeDiskSpaceFailed", "the image file system is fuller than %d %%: %d bytes had to be freed, but only %d were",
			in.Policy.HighPercent, r.Plan.ToFree, r.Freed)
	}
	if len(r.Removed) > 0 {
		c.options.Logger.Info("Images removed", "images", len(r.Removed), "bytes", r.Freed)
	}
	c.left(ctx, r)
	return errors.Join(x.problems...)
}

// remove removes what should go and is permitted, and returns the choices that are still undecided.
func (x *execution) remove(ctx context.Context, choices []Choice) (open []Choice, err error) {
	for _, choice := range choices {
		if !choice.Remove && !choice.Spare {
			break // the rest stays
		}
		if choice.Cause == causeSpace && !x.in.Pressure && x.report.Freed >= x.report.Plan.ToFree {
			break
		}
		if x.wanted(choice.Image) {
			continue
		}
		if permitted, undecided := x.permits(choice); !permitted {
			if undecided {
				open = append(open, choice)
			}
			continue
		}
		if x.removals++; x.removals > perSecond && !x.pause(ctx) {
			return nil, ctx.Err()
		}
		if err := x.Collector.remove(ctx, choice); err != nil {
			x.problems = append(x.problems, fmt.Errorf("remove image %s: %w", title(choice.Image), err))
			continue
		}
		x.report.Removed = append(x.report.Removed, choice.Image.Key)
		x.report.Freed += choice.Image.Size
	}
	return open, nil
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
