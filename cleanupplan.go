package podwright

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/runtime/pods"
)

// CleanupPlan says what housekeeping and garbage collection would do now, and the
// rule behind everything that stays, without touching anything. What it could not
// find out is in the plan as a rule that forbids, and in the error; the plan is good
// for the rest. It makes some calls of the runtime.
func (e *Engine) CleanupPlan(ctx context.Context) (cleanup.Plan, error) {
	plan, err := e.housekeeper.Plan(ctx)
	if e.images == nil {
		return plan, err
	}
	images, imagesErr := e.images.Plan(ctx)
	now := e.config.Clock.Now()
	for _, c := range images.Choices {
		plan.Add(imageAction(c, now))
	}
	return plan, errors.Join(err, imagesErr)
}

// imageAction gives the choice of an image the shape of a plan.
func imageAction(c imagegc.Choice, now time.Time) cleanup.Action {
	a := cleanup.Action{
		Step: cleanup.StepImages, Object: cleanup.Object{ID: c.Image.Key}, Reason: c.Reason, Size: int64(min(c.Image.Size, 1<<62)),
	}
	if len(c.Image.Names) > 0 {
		a.Object.ID = c.Image.Names[0]
	}
	if since := c.Image.FirstSeen; !since.IsZero() {
		a.Age = metav1.Duration{Duration: now.Sub(since).Truncate(time.Second)}
	}
	if !c.Remove {
		a.Reason, a.Forbidden = "an image", c.Kept
	}
	return a
}

// contents are what pods leave behind, for the housekeeper.
type contents struct{ *pods.Manager }

var _ cleanup.Dated = contents{}

func (c contents) Changed(step cleanup.Step, uid types.UID) time.Time {
	if step == cleanup.StepLogs {
		return c.LogDirChanged(uid)
	}
	return c.PodDirChanged(uid)
}
