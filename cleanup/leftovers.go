package cleanup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/internal/timing"
)

// Cgroups are the pods' cgroups (steps 1 and 16). Calls wait for nothing but the file system.
type Cgroups interface {
	// List returns the pods that have a cgroup.
	List() ([]types.UID, error)
	// HasVolumes reports whether volumes of the pod are still there, whose memory may be charged to
	// its cgroup. If that is not known it returns an error, which counts as yes.
	HasVolumes(ctx context.Context, uid types.UID) (bool, error)
	// ReduceCPU gives the pod's cgroup the smallest possible weight.
	ReduceCPU(uid types.UID) error
	// Destroy removes the pod's cgroup; killing what runs in it may take a second. It may be called
	// repeatedly.
	Destroy(ctx context.Context, uid types.UID) error
}

// UserRanges are the ranges of user IDs that pods have (step 8). Calls wait for nothing but the
// disk.
type UserRanges interface {
	// UserRanges returns the pods that have a range. It does not read the disk.
	UserRanges() []types.UID
	// ReleaseUserRange frees the range for other pods. For a pod without a range it succeeds.
	ReleaseUserRange(uid types.UID) error
}

// Mirrors are the mirror pods without a static pod (step 10). Calls do not block.
type Mirrors interface {
	// OrphanedMirrors returns the full names of mirror pods whose static pod is
	// not desired.
	OrphanedMirrors() []types.NamespacedName
	// StaticTerminating reports whether a static pod with this name is still being terminated: its
	// mirror shows that to users (ND7).
	StaticTerminating(name types.NamespacedName) bool
	// DeleteMirror asks for the deletion of the mirror pod with this name, whatever its UID.
	DeleteMirror(name types.NamespacedName)
}

// listCgroups is step 1. It comes before the desired pods are read, so that a pod that is added
// meanwhile is not taken for an orphan.
func (h *Housekeeper) listCgroups(in *input) error {
	if h.options.Cgroups == nil {
		return nil
	}
	var err error
	if in.Cgroups, err = h.options.Cgroups.List(); err != nil {
		return fmt.Errorf("list cgroups of pods: %w", err)
	}
	return nil
}

// volumesOf finds out which unused cgroups belong to pods that have volumes.
func (h *Housekeeper) volumesOf(ctx context.Context, in *input) {
	in.Volumes = map[types.UID]string{}
	silent := h.silent
	h.silent = map[types.UID]*failure{}
	var asked sync.WaitGroup
	var mu sync.Mutex // guards both maps
	note := func(uid types.UID, why string, unanswered *failure) {
		mu.Lock()
		defer mu.Unlock()
		if why != "" {
			in.Volumes[uid] = why
		}
		if unanswered != nil {
			h.silent[uid] = unanswered
		}
	}
	begun := timing.Batch{Clock: h.options.Clock}
	for _, uid := range in.Cgroups {
		if _, desired := h.pods.Get(uid); desired || h.workers.Knows(uid) {
			continue
		}
		last := silent[uid]
		if last != nil && h.options.Clock.Now().Before(last.retry) {
			note(uid, last.err.Error(), last)
			continue
		}
		answered := make(chan struct{})
		asked.Go(func() {
			defer close(answered)
			why, inTime := h.askVolumes(ctx, uid)
			if inTime {
				note(uid, why, nil)
				return
			}
			note(uid, why, unansweredBy(last, h.options.Clock.Now()))
		})
		begun.Add(ctx, answered)
	}
	asked.Wait()
}

// askVolumes returns why a cgroup has to stay, or "", and whether the answer came in time.
func (h *Housekeeper) askVolumes(ctx context.Context, uid types.UID) (why string, inTime bool) {
	limited, cancel := timing.WithTimeout(ctx, h.options.Clock, timing.Patience)
	defer cancel()
	has, err := h.options.Cgroups.HasVolumes(limited, uid)
	switch {
	case err != nil:
		return "it is not known whether volumes of the pod are still there: " + err.Error(), limited.Err() == nil
	case has:
		return "volumes of the pod are still there", true
	}
	return "", true
}

// unansweredBy records that it could not be found out in time whether a pod has volumes, so that a
// pod whose volumes do not answer does not delay every pass (HI12).
func unansweredBy(last *failure, now time.Time) *failure {
	f := &failure{err: errors.New("it is not known whether volumes of the pod are still there: there was no answer in time")}
	if last != nil {
		f.delay = last.delay
	}
	f.delay = backoff.Next(retryMin, retryMax, f.delay)
	f.retry = now.Add(f.delay)
	return f
}

// reduceCPU is the other half of step 16: a cgroup that has to stay must not slow down the others.
// Its CPU is reduced once while it stays.
func (h *Housekeeper) reduceCPU(plan Plan) (problems []error) {
	kept := map[types.UID]bool{}
	for _, a := range plan.Actions {
		if a.Step != StepCgroups || a.Forbidden.Rule != rule.VolumesLeft || !h.allows(a.PodUID) {
			continue
		}
		kept[a.PodUID] = true
		if h.reduced[a.PodUID] {
			continue
		}
		if err := h.options.Cgroups.ReduceCPU(a.PodUID); err != nil {
			problems = append(problems, fmt.Errorf("reduce CPU of pod %s: %w", a.PodUID, err))
			delete(kept, a.PodUID)
		}
	}
	h.reduced = kept
	return problems
}

// deleteMirrors is step 10. It needs no list of what runs.
func (h *Housekeeper) deleteMirrors(plan Plan) {
	for _, a := range plan.Actions {
		if a.Step != StepMirrors || !a.Allowed() {
			continue
		}
		mirror := types.NamespacedName{Namespace: a.Object.Namespace, Name: a.Object.Name}
		switch {
		case !h.sourcesReady():
			h.skip(a, sourcesUnseen())
		case h.options.Mirrors.StaticTerminating(mirror):
			h.skip(a, staticTerminating())
		case h.permits(a):
			h.options.Mirrors.DeleteMirror(mirror)
			h.done(a, nil)
		}
	}
}
