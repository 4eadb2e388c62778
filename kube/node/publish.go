package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

// freshFrom is the attempt for one status from which on existing connections are not trusted,
// unless the API server answers over them.
const freshFrom = 2

// publish publishes the node's status (KN3, KN4).
func (r *Registrar) publish(ctx context.Context, s nodehooks.Status) error {
	if r.hasLeft() {
		return nil
	}
	err := r.attempt(ctx, s)
	if err != nil {
		return fmt.Errorf("publish the status of the Node %s: %w", r.options.Name, explained(err))
	}
	return nil
}

// attempt makes one of the attempts that follow each other without a pause. After an answer that the
// next attempt would only get again, it makes no call until the next status.
func (r *Registrar) attempt(ctx context.Context, s nodehooks.Status) error {
	r.mu.Lock()
	last := r.unpublished
	r.mu.Unlock()
	switch {
	case s.Attempt == 0:
	case last != nil && final(last):
		return last
	case s.Attempt == freshFrom && errors.Is(last, errUnanswered):
		r.options.Reconnect()
	}
	err := r.publishOnce(ctx, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unpublished = err
	return err
}

// final reports whether trying again at once would get the same error. A conflict and its kin may
// come from a Node that has changed, which the next attempt reads.
func final(err error) bool {
	return !errors.Is(err, errUnanswered) && !ofNode(err)
}

// ofNode reports whether an error may come from a Node that was changed, deleted or recreated. A
// patch with the UID of another Node fails as a conflict, or as invalid.
func ofNode(err error) bool {
	return answers.NotFound(err) || answers.Conflict(err) || answers.Invalid(err)
}

func (r *Registrar) publishOnce(ctx context.Context, s nodehooks.Status) error {
	uid := r.nodeUID()
	if uid == "" {
		return nodehooks.ErrNodeGone
	}
	base, err := r.base(ctx, uid, s.Attempt)
	if err != nil {
		return r.orGone(ctx, err)
	}
	now := r.facts()
	want := base.Status.DeepCopy()
	now.apply(want)
	r.keep(&base.Status, want)
	want.Conditions = mergeConditions(base.Status.Conditions, s.Conditions)
	patch, err := statusPatch(uid, &base.Status, want)
	if err != nil {
		return err
	}
	var written *v1.Node
	err = r.within(ctx, func(ctx context.Context) (err error) {
		written, err = r.options.Client.CoreV1().Nodes().Patch(ctx, r.options.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return r.orGone(ctx, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uid == uid {
		r.published, r.told, r.written, r.former = &now, s.Conditions, written.ResourceVersion, false
	}
	return nil
}

// base is the Node that the patch starts from: the watched one on the first attempt, which saves a
// request; on later attempts, and if the watch may be behind what was written, one that is read now: the
// patch would leave out what the watch still shows as it is to be.
func (r *Registrar) base(ctx context.Context, uid types.UID, attempt int) (*v1.Node, error) {
	r.mu.Lock()
	written, unknown := r.written, r.unpublished != nil
	r.mu.Unlock()
	if watched := r.Object(); attempt == 0 && !unknown && watched != nil && watched.UID == uid && !behind(watched, written) {
		return watched, nil
	}
	node, err := r.get(ctx)
	if err == nil && node.UID != uid {
		return nil, apierrors.NewNotFound(v1.Resource("nodes"), r.options.Name)
	}
	return node, err
}

// behind reports whether the watch does not show the written version yet.
func behind(watched *v1.Node, written string) bool {
	return written != "" && watched.ResourceVersion != written && answers.Older(watched.ResourceVersion, written)
}

// overwritten reports whether others changed a condition since it was published, as the cluster does when it takes
// the node for lost, which it never takes back by itself, or what they advertise. r.mu must be held.
func (r *Registrar) overwritten() bool {
	shown := r.Object()
	if shown == nil || shown.UID != r.uid || behind(shown, r.written) {
		return false
	}
	return r.unusable(&shown.Status) || slices.ContainsFunc(r.told, func(told v1.NodeCondition) bool {
		return !slices.ContainsFunc(shown.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == told.Type && c.Status == told.Status })
	})
}

// orGone turns an error that may mean a deleted Node into ErrNodeGone if the Node is gone (KN7).
func (r *Registrar) orGone(ctx context.Context, err error) error {
	if !ofNode(err) {
		return err
	}
	gone, readErr := r.confirmGone(ctx)
	switch {
	case readErr != nil:
		return fmt.Errorf("%w; whether the Node still exists is not known: %w", err, readErr)
	case gone && r.hasLeft():
		return nil
	case gone:
		return fmt.Errorf("%w: %w", nodehooks.ErrNodeGone, err)
	}
	return err
}
