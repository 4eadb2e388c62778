package statussink

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/status"
)

// Sink writes the statuses of pods to an API server. Make one with [New]. It has no goroutine. All
// methods are safe for concurrent use; for one pod they are never called concurrently, as
// [status.StatusSink] guarantees.
type Sink struct {
	client rest.Interface
	copies *copies
	pace   *pace
}

var (
	_ status.StatusSink = (*Sink)(nil)
	_ status.PodReader  = (*Sink)(nil)
	_ status.PodDeleter = (*Sink)(nil)
)

// New returns a sink, or everything that is wrong with its options.
func New(options Options) (*Sink, error) {
	client, err := options.complete()
	if err != nil {
		return nil, fmt.Errorf("statussink: %w", err)
	}
	return &Sink{client: client, copies: newCopies(options.Lookup, options.Clock), pace: newPace(options.QPS, options.Burst, options.Clock)}, nil
}

// Name is the sink's name in logs and metrics.
func (s *Sink) Name() string { return "api" }

// ReadPod implements [status.PodReader]: from the watch if its copy is fresh, otherwise from the
// server (KT5).
func (s *Sink) ReadPod(ctx context.Context, ref status.PodRef) (*v1.Pod, error) {
	if pod := s.copies.fresh(ref); pod != nil {
		return pod, nil
	}
	return s.get(ctx, ref)
}

// Store implements [status.StatusSink]: one patch of what differs from Update.Base (KT1). A refusal
// that may concern another life is resolved by a fresh read (KT2).
func (s *Sink) Store(ctx context.Context, u status.Update) (status.StoreResult, error) {
	base := u.Base
	if base == nil {
		pod, err := s.get(ctx, u.PodRef)
		if result, over := lifeOf(pod, u.UID); err != nil || over {
			return result, err
		}
		base = &pod.Status
	}
	version, same := s.precondition(u)
	if !same {
		return status.Conflict, nil
	}
	patch, err := patchOf(u.UID, version, base, u.Status)
	if err != nil {
		return 0, err
	}
	if patch == nil {
		return status.Unchanged, nil
	}
	stored := &v1.Pod{}
	err = s.do(ctx, s.client.Patch(types.StrategicMergePatchType).SubResource("status").Body(patch), u.PodRef, stored)
	if err == nil {
		s.copies.note(stored)
		return status.Stored, nil
	}
	if mayHaveActed(err) {
		s.copies.unknown(u.UID)
	}
	switch {
	case answers.NotFound(err):
		s.copies.forget(u.UID)
		return status.Gone, nil
	case !ofLife(err):
		return 0, err
	}
	pod, readErr := s.get(ctx, u.PodRef)
	if readErr != nil {
		return 0, fmt.Errorf("%w; and it cannot be read: %w", err, readErr)
	}
	if result, over := lifeOf(pod, u.UID); over {
		return result, nil
	}
	if answers.Conflict(err) {
		return status.Conflict, nil
	}
	return 0, err
}

// mayHaveActed reports whether a call that failed may have had an effect. One that was not made, or
// that the server did not admit, had none; then the copy need not be read again (KT5).
func mayHaveActed(err error) bool {
	return !errors.Is(err, errNoCall) && !apierrors.IsTooManyRequests(err) && !apierrors.IsUnauthorized(err)
}

// ofLife reports whether an error may mean that the name belongs to another life: another UID is
// invalid in a patch and a conflict in a deletion, and a pod of another node is forbidden.
func ofLife(err error) bool {
	return answers.Invalid(err) || answers.Conflict(err) || answers.Forbidden(err)
}

// lifeOf says what a pod read by name means for uid: its life is over if there is another life, or no pod.
func lifeOf(pod *v1.Pod, uid types.UID) (result status.StoreResult, ended bool) {
	switch {
	case pod == nil:
		return status.Gone, true
	case pod.UID != uid:
		return status.Recreated, true
	}
	return 0, false
}

// precondition is the version of the pod on which a terminal phase must be written, so that it
// replaces no other one; empty if the phase is not terminal, or nothing is kept. It returns false if the watch
// has moved on from the base, and shows another end.
func (s *Sink) precondition(u status.Update) (version string, same bool) {
	if u.Base == nil || s.copies.lookup == nil || podinfo.Terminal(u.Base.Phase) || !podinfo.Terminal(u.Status.Phase) {
		return "", true
	}
	if pod := s.copies.of(u.UID, u.Base); pod != nil {
		return pod.ResourceVersion, true
	}
	pod := s.copies.lookup(u.UID)
	if pod == nil {
		return "", true
	}
	return pod.ResourceVersion, !podinfo.Terminal(pod.Status.Phase)
}

// DeletePod implements [status.PodDeleter]: with grace 0, and only the life with this UID (KT4). A
// refusal is a success if a fresh read shows that this life is over. So is a 404 about a pod that the watch still
// shows: an API server that has just started may answer it for a pod that it has not seen yet itself.
func (s *Sink) DeletePod(ctx context.Context, ref status.PodRef) error {
	options := &metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      &metav1.Preconditions{UID: &ref.UID},
	}
	err := s.do(ctx, s.client.Delete().Body(options), ref, nil)
	switch {
	case err == nil, answers.NotFound(err) && (s.copies.lookup == nil || s.copies.gone(ref.UID)):
		s.copies.forget(ref.UID)
		return nil
	case !ofLife(err) && !answers.NotFound(err):
		return err
	}
	pod, readErr := s.get(ctx, ref)
	if readErr != nil {
		return fmt.Errorf("%w; and it cannot be read: %w", err, readErr)
	}
	if _, over := lifeOf(pod, ref.UID); !over {
		return fmt.Errorf("%w; a read still finds it", err)
	}
	return nil
}

// get reads a pod from the server; nil if the node has no pod of this name.
func (s *Sink) get(ctx context.Context, ref status.PodRef) (*v1.Pod, error) {
	pod := &v1.Pod{}
	err := s.do(ctx, s.client.Get(), ref, pod)
	switch {
	case answers.NotFound(err), answers.Forbidden(err) && s.copies.gone(ref.UID):
		// The node authorizer forbids pods of other nodes, and pods that do not exist.
		s.copies.forget(ref.UID)
		return nil, nil
	case err != nil:
		return nil, err
	case pod.UID == ref.UID:
		s.copies.note(pod)
	default:
		s.copies.forget(ref.UID)
	}
	return pod, nil
}

// errNoCall says that a call was not made.
var errNoCall = errors.New("no call yet")

// do makes one call about a pod, when it may, and without retries: the status manager retries. into
// may be nil.
func (s *Sink) do(ctx context.Context, request *rest.Request, ref status.PodRef, into *v1.Pod) error {
	if err := s.pace.wait(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNoCall, err)
	}
	result := request.Namespace(ref.Namespace).Resource("pods").Name(ref.Name).Throttle(nil).MaxRetries(0).Do(ctx)
	err := result.Error()
	if err == nil && into != nil {
		err = result.Into(into)
	}
	s.pace.answered(err)
	return err
}
