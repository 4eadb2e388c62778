package node

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// EvictOptions says how to evict one pod on request.
type EvictOptions struct {
	Grace           time.Duration
	Reason, Message string
}

// Limits of what a status says about an eviction.
const (
	maxReason  = 128
	maxMessage = 1024
)

// camelCase matches valid reasons.
var camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// complete fills in what is empty, or returns everything that is wrong.
func (o EvictOptions) complete() (EvictOptions, error) {
	var problems []error
	if o.Grace < 0 {
		problems = append(problems, fmt.Errorf("grace %v is negative", o.Grace))
	}
	if o.Reason == "" {
		o.Reason = eviction.Reason
	}
	switch {
	case !camelCase.MatchString(o.Reason) || len(o.Reason) > maxReason:
		problems = append(problems, fmt.Errorf("reason %.140q is not a CamelCase word of at most %d letters and digits", o.Reason, maxReason))
	case o.Reason == reasonPreempting || o.Reason == shutdown.Reason || o.Reason == admission.ReasonShutdown:
		problems = append(problems, fmt.Errorf("reason %q has a meaning of its own; choose another", o.Reason))
	}
	if len(o.Message) > maxMessage {
		problems = append(problems, fmt.Errorf("the message has %d bytes, at most %d are shown", len(o.Message), maxMessage))
	}
	if o.Message == "" {
		o.Message = "The pod was evicted on request."
	}
	if err := errors.Join(problems...); err != nil {
		return o, fmt.Errorf("%w: %w", runtime.ErrInvalid, err)
	}
	return o, nil
}

// seconds returns the grace in the form that pods use, nil for the pod's own, which is never exceeded.
func (o EvictOptions) seconds(pod *v1.Pod) *int64 {
	n := int64(o.Grace / time.Second)
	if o.Grace%time.Second > 0 {
		n++
	}
	if own := pod.Spec.TerminationGracePeriodSeconds; n == 0 || own != nil && *own <= n {
		return nil
	}
	return &n
}

// OnePod evicts single pods on request (spec/syncloop.md OC1). Every field must be set before a
// method is called.
type OnePod struct {
	Evictions *Evictions
	// Find returns a pod with its newest status, or false.
	Find func(uid types.UID) (*v1.Pod, bool)
	// Critical reports whether a pod must not be evicted.
	Critical func(pod *v1.Pod) bool
	Events   podinfo.EventRecorder
	Logger   logr.Logger
}

// Evict stops a pod for good, and waits until none of its containers is running.
func (p *OnePod) Evict(ctx context.Context, uid types.UID, options EvictOptions) error {
	pod, ok := p.Find(uid)
	if !ok {
		return fmt.Errorf("evict pod %q: %w", uid, runtime.ErrNotFound)
	}
	options, err := options.complete()
	if err != nil {
		return fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	residents := p.Evictions.Residents
	switch {
	case podinfo.Terminal(pod.Status.Phase):
		return p.awaitEnd(ctx, pod, options)
	case p.Critical(pod):
		return fmt.Errorf("evict pod %s/%s: it is critical, and critical pods are never evicted; remove it at its source: %w",
			pod.Namespace, pod.Name, runtime.ErrFailedPrecondition)
	case !residents.Known(pod.UID):
		return fmt.Errorf("evict pod %s/%s: its life has not begun, its explanation says what it waits for; try again, or remove it at its source: %w",
			pod.Namespace, pod.Name, runtime.ErrFailedPrecondition)
	}
	p.Logger.Info("Evicting a pod on request", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID, "reason", options.Reason, "message", options.Message)
	p.Events.Eventf(pod, v1.EventTypeWarning, eviction.Reason, "%s", options.Message)
	if err := p.Evictions.Kill(ctx, pod, options.seconds(pod), eviction.Amend(options.Reason, options.Message)); err != nil {
		return fmt.Errorf("evict: %w", err)
	}
	return nil
}

// awaitEnd waits for the containers of a pod that has ended; the pod keeps its end.
func (p *OnePod) awaitEnd(ctx context.Context, pod *v1.Pod, options EvictOptions) error {
	if p.Evictions.Residents.Finished(pod.UID) {
		return nil
	}
	err := p.Evictions.Killer.KillPod(ctx, pod, podworkers.KillOptions{GracePeriodSeconds: options.seconds(pod)})
	if err != nil {
		return fmt.Errorf("evict: %w", err)
	}
	return nil
}
