package cri

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podorder"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
)

// ViewOptions configures a [View]. The zero value is ready to use.
type ViewOptions struct {
	// OwnerID, if set, limits the view to objects whose [runtime.LabelOwner] has this
	// value. Empty means every object that carries the three pod labels.
	OwnerID string
	// Sequence orders readings. Nil means a new one; pass the engine's.
	Sequence *runtime.Sequence
	// Clock gives PodStatus.ObservedAt. Nil means the real clock.
	Clock clock.PassiveClock
}

// View turns raw CRI readings into domain types. Its only state is the runtime's
// name, and it is safe for concurrent use. Its methods fail with the wrapped error
// of the runtime call that failed.
type View struct {
	reader  Reader
	options ViewOptions
	name    atomic.Pointer[string]
}

// NewView returns a view of what r shows.
func NewView(r Reader, options ViewOptions) *View {
	if options.Sequence == nil {
		options.Sequence = &runtime.Sequence{}
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &View{reader: r, options: options}
}

// Stamp draws a stamp from the view's sequence: readings that begin later carry
// a larger one.
func (v *View) Stamp() runtime.Stamp { return v.options.Sequence.Next() }

// Listing is one raw reading of the whole runtime.
type Listing struct {
	// Stamp was drawn before the first list call.
	Stamp runtime.Stamp
	// Runtime is the name of the runtime, for container IDs.
	Runtime string
	// Sandboxes and Containers as the runtime returned them, foreign ones
	// and entries without metadata included; see [View.Owns].
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container
}

// List reads all sandboxes and containers with two calls (spec/runtime.md 1.1).
// A non-empty uid limits the reading to the objects labelled with it.
func (v *View) List(ctx context.Context, uid types.UID) (*Listing, error) {
	name, err := v.runtimeName(ctx)
	if err != nil {
		return nil, err
	}
	var sandboxes *runtimeapi.PodSandboxFilter
	var containers *runtimeapi.ContainerFilter
	if uid != "" {
		selector := map[string]string{runtime.LabelPodUID: string(uid)}
		sandboxes = &runtimeapi.PodSandboxFilter{LabelSelector: selector}
		containers = &runtimeapi.ContainerFilter{LabelSelector: selector}
	}
	l := &Listing{Stamp: v.options.Sequence.Next(), Runtime: name}
	if l.Sandboxes, err = v.reader.ListPodSandbox(ctx, sandboxes); err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	timing.Answered(ctx)
	if l.Containers, err = v.reader.ListContainers(ctx, containers); err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	timing.Answered(ctx)
	return l, nil
}

// Owns reports whether an object with these labels belongs to this view: it
// carries the three pod labels and, if the view has an owner ID, that owner
// (spec/runtime.md 1.9).
func (v *View) Owns(labels map[string]string) bool {
	if labels[runtime.LabelPodUID] == "" || labels[runtime.LabelPodName] == "" || labels[runtime.LabelPodNamespace] == "" {
		return false
	}
	return v.options.OwnerID == "" || labels[runtime.LabelOwner] == v.options.OwnerID
}

// SandboxUID returns the UID of the pod a listed sandbox belongs to, and false if it is
// foreign or lacks its ID or metadata.
func (v *View) SandboxUID(s *runtimeapi.PodSandbox) (types.UID, bool) {
	labels := s.GetLabels()
	return types.UID(labels[runtime.LabelPodUID]), s.GetId() != "" && s.GetMetadata() != nil && v.Owns(labels)
}

// ContainerUID returns the UID of the pod a listed container belongs to, and false if it
// is foreign or lacks its ID, metadata or image.
func (v *View) ContainerUID(c *runtimeapi.Container) (types.UID, bool) {
	labels := c.GetLabels()
	return types.UID(labels[runtime.LabelPodUID]), c.GetId() != "" && c.GetMetadata() != nil && c.GetImage() != nil && v.Owns(labels)
}

// ListPods returns every pod the runtime shows, dead ones included, sorted by
// UID. Foreign and incomplete objects are skipped.
func (v *View) ListPods(ctx context.Context) ([]*runtime.Pod, error) {
	l, err := v.List(ctx, "")
	if err != nil {
		return nil, err
	}
	return v.Pods(l), nil
}

// ListPod returns one pod as the runtime lists it, or nil if the runtime shows
// nothing of it.
func (v *View) ListPod(ctx context.Context, uid types.UID) (*runtime.Pod, error) {
	l, err := v.List(ctx, uid)
	if err != nil {
		return nil, err
	}
	for _, p := range v.Pods(l) {
		if p.UID == uid {
			return p, nil
		}
	}
	return nil, nil
}

// Pods groups a listing into pods, sorted by UID. An object that a runtime lists
// twice for one pod appears once, as it was first listed.
func (v *View) Pods(l *Listing) []*runtime.Pod {
	byUID := map[types.UID]*runtime.Pod{}
	pod := func(uid types.UID, labels map[string]string) *runtime.Pod {
		p := byUID[uid]
		if p == nil {
			p = &runtime.Pod{UID: uid, Name: labels[runtime.LabelPodName], Namespace: labels[runtime.LabelPodNamespace], Stamp: l.Stamp}
			byUID[uid] = p
		}
		return p
	}
	for _, s := range l.Sandboxes {
		uid, ok := v.SandboxUID(s)
		if !ok {
			continue
		}
		p := pod(uid, s.GetLabels())
		if slices.ContainsFunc(p.Sandboxes, func(known *runtime.Sandbox) bool { return known.ID == s.GetId() }) {
			continue
		}
		p.Sandboxes = append(p.Sandboxes, &runtime.Sandbox{
			ID:        s.GetId(),
			State:     SandboxState(s.GetState()),
			Attempt:   s.GetMetadata().GetAttempt(),
			CreatedAt: fromNanos(s.GetCreatedAt()),
		})
	}
	for _, c := range l.Containers {
		uid, ok := v.ContainerUID(c)
		if !ok {
			continue
		}
		p := pod(uid, c.GetLabels())
		if slices.ContainsFunc(p.Containers, func(known *runtime.Container) bool { return known.ID.ID == c.GetId() }) {
			continue
		}
		p.Containers = append(p.Containers, &runtime.Container{
			ID:          runtime.ContainerID{Runtime: l.Runtime, ID: c.GetId()},
			Name:        c.GetMetadata().GetName(),
			SandboxID:   c.GetPodSandboxId(),
			State:       ContainerState(c.GetState()),
			Attempt:     c.GetMetadata().GetAttempt(),
			CreatedAt:   fromNanos(c.GetCreatedAt()),
			Annotations: c.GetAnnotations(),
		})
	}
	pods := make([]*runtime.Pod, 0, len(byUID))
	for _, p := range byUID {
		podorder.Pod(p)
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b *runtime.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// PodStatus reads every sandbox and container of a listed pod in full. An object that
// vanished since the list is skipped; any other error fails the whole reading
// (spec/runtime.md 1.5). A sandbox that is in known is taken from there instead of being
// read. The pod is named as its newest sandbox is.
func (v *View) PodStatus(ctx context.Context, pod *runtime.Pod, known ...*runtime.SandboxStatus) (*runtime.PodStatus, error) {
	name, err := v.runtimeName(ctx)
	if err != nil {
		return nil, err
	}
	status := &runtime.PodStatus{
		UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace,
		Stamp: pod.Stamp, ObservedAt: v.options.Clock.Now(),
	}
	for _, s := range pod.Sandboxes {
		if i := slices.IndexFunc(known, func(k *runtime.SandboxStatus) bool { return k.ID == s.ID }); i >= 0 {
			status.Sandboxes = append(status.Sandboxes, known[i])
			continue
		}
		response, err := v.reader.PodSandboxStatus(ctx, s.ID, false)
		timing.Answered(ctx)
		if IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("status of sandbox %s: %w", s.ID, err)
		}
		if response.GetStatus() == nil {
			return nil, fmt.Errorf("status of sandbox %s: the runtime returned none", s.ID)
		}
		status.Sandboxes = append(status.Sandboxes, NewSandboxStatus(response.GetStatus()))
	}
	for _, c := range pod.Containers {
		response, err := v.reader.ContainerStatus(ctx, c.ID.ID, false)
		timing.Answered(ctx)
		if IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("status of container %s (%s): %w", c.Name, c.ID.ID, err)
		}
		if response.GetStatus() == nil {
			return nil, fmt.Errorf("status of container %s (%s): the runtime returned none", c.Name, c.ID.ID)
		}
		cs := NewContainerStatus(response.GetStatus(), name)
		cs.SandboxID = c.SandboxID
		status.Containers = append(status.Containers, cs)
	}
	podorder.Status(status)
	if len(status.Sandboxes) > 0 { // what is left of an earlier life of the UID may have another name
		if labels := status.Sandboxes[0].Labels; labels[runtime.LabelPodName] != "" {
			status.Name, status.Namespace = labels[runtime.LabelPodName], labels[runtime.LabelPodNamespace]
		}
	}
	return status, nil
}

// Read lists one pod and reads it in full: what the runtime shows now. A pod
// the runtime does not know gives an empty status with its UID.
func (v *View) Read(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	l, err := v.List(ctx, uid)
	if err != nil {
		return nil, err
	}
	for _, pod := range v.Pods(l) {
		if pod.UID == uid {
			return v.PodStatus(ctx, pod)
		}
	}
	return &runtime.PodStatus{UID: uid, Stamp: l.Stamp, ObservedAt: v.options.Clock.Now()}, nil
}

// runtimeName asks the runtime for its name once and remembers the answer.
func (v *View) runtimeName(ctx context.Context) (string, error) {
	if name := v.name.Load(); name != nil {
		return *name, nil
	}
	response, err := v.reader.Version(ctx, APIVersion)
	if err != nil {
		return "", fmt.Errorf("runtime version: %w", err)
	}
	timing.Answered(ctx)
	name := response.GetRuntimeName()
	v.name.Store(&name)
	return name, nil
}
