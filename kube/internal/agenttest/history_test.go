package agenttest

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/tale"
	"github.com/podwright/podwright/kube/internal/memoryapi"
)

// account makes a tale of what the API server has seen, and finds what must hold in every life.
type account struct {
	tale *tale.Tale
	// lives counts the objects of a name so far.
	lives map[string]int
	// last is each object as it was, by its name.
	pods    map[string]*v1.Pod
	node    *v1.Node
	renewed time.Time
	wrong   []string
	// events are the kinds of event about each object, with what the last one said.
	events map[string]string
	// kills are when agents died.
	kills []time.Time
}

// lazily is how long what is told of a static pod may be on no disk (status.md 9.3), in times of whole seconds.
const lazily = 2 * time.Second

// accountOf reads the history of an API server.
func accountOf(history []memoryapi.Change, into *tale.Tale, kills []time.Time) *account {
	a := &account{tale: into, kills: kills, lives: map[string]int{}, pods: map[string]*v1.Pod{}, events: map[string]string{}}
	for _, c := range history {
		switch o := c.Object.(type) {
		case *v1.Pod:
			a.pod(c, o)
		case *v1.Node:
			a.nodeChanged(c, o)
		case *coordinationv1.Lease:
			a.lease(c, o)
		case *v1.Event:
			if o.Reason == "Recovered" {
				continue // an agent that was killed has successors, which say so
			}
			a.events[o.InvolvedObject.Kind+" "+o.InvolvedObject.Name+" "+o.Reason] = o.Message
		}
	}
	return a
}

func (a *account) differ(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

// life names an object that may have had namesakes before.
func (a *account) life(c memoryapi.Change, kind, name string) string {
	if c.Type == watch.Added {
		a.lives[kind+name]++
	}
	return fmt.Sprintf("%s %s, life %d", kind, name, a.lives[kind+name])
}

func (a *account) pod(c memoryapi.Change, p *v1.Pod) {
	name := a.life(c, "pod", p.Name)
	by := "the operator"
	if c.User != "" {
		by = "the node"
	}
	last := a.pods[name]
	a.pods[name] = p
	switch c.Type {
	case watch.Added:
		text := "created by " + by
		for _, owner := range p.OwnerReferences {
			text += fmt.Sprintf(", owned by the Node's present life: %t", a.node != nil && owner.UID == a.node.UID)
		}
		a.tale.Note(name+" object", text)
		return
	case watch.Deleted:
		a.tale.Note(name+" object", "deleted by "+by)
		return
	}
	if last.DeletionTimestamp == nil && p.DeletionTimestamp != nil {
		a.tale.Note(name+" object", "deletion asked for by "+by)
	}
	if c.User == "" {
		return
	}
	if podinfo.Mirror(p) && slices.ContainsFunc(p.Status.ContainerStatuses, func(c v1.ContainerStatus) bool { return c.State.Terminated != nil }) {
		return // it is about to be deleted: its static pod is not wanted any more
	}
	ended := func(c v1.ContainerStatus) bool { return c.State.Terminated != nil }
	if p.DeletionTimestamp != nil && !podinfo.Terminal(p.Status.Phase) && slices.ContainsFunc(p.Status.ContainerStatuses, ended) {
		a.steady(name, last, p)
		return // the moment before its end is told, which an undisturbed agent may pass over
	}
	a.tale.Tell(name, &p.Status, false)
	a.steady(name, last, p)
}

// forgettable reports whether an agent died before what was told at a moment had to be on the disk.
func (a *account) forgettable(p *v1.Pod, at time.Time) bool {
	return podinfo.Mirror(p) && slices.ContainsFunc(a.kills, func(k time.Time) bool { return !k.Before(at) && k.Before(at.Add(lazily)) })
}

// steady wants what is about the past to stay as it was.
func (a *account) steady(name string, last, now *v1.Pod) {
	if last.Status.StartTime != nil && !last.Status.StartTime.Equal(now.Status.StartTime) {
		a.differ("%s: the start time changes from %v to %v", name, last.Status.StartTime, now.Status.StartTime)
	}
	for _, was := range last.Status.Conditions {
		for _, is := range now.Status.Conditions {
			if was.Type == is.Type && was.Status == is.Status && !was.LastTransitionTime.Equal(&is.LastTransitionTime) && !a.forgettable(now, was.LastTransitionTime.Time) {
				a.differ("%s: %s stays %s, but its transition moves from %v to %v", name, is.Type, is.Status, was.LastTransitionTime, is.LastTransitionTime)
			}
		}
	}
	for i, was := range last.Status.ContainerStatuses {
		is := now.Status.ContainerStatuses[i]
		before, after := was.State.Terminated, is.State.Terminated
		if before != nil && after != nil && was.RestartCount == is.RestartCount && *before != *after {
			a.differ("%s: the end of %s changes from %+v to %+v", name, is.Name, before, after)
		}
	}
}

func (a *account) nodeChanged(c memoryapi.Change, n *v1.Node) {
	name := a.life(c, "Node", n.Name)
	if c.Type == watch.Deleted {
		a.tale.Note(name, "deleted")
		a.node, a.renewed = nil, time.Time{}
		return
	}
	text := fmt.Sprintf("%v %v", n.Labels, n.Status.Addresses)
	if v := n.Status.NodeInfo.ContainerRuntimeVersion; v != "" || a.node != nil && a.node.Status.NodeInfo.ContainerRuntimeVersion != "" {
		a.tale.Note(name+" runtime", v) // at first it may not have answered yet
	}
	for _, condition := range n.Status.Conditions {
		text += fmt.Sprintf(" %s=%s %s", condition.Type, condition.Status, condition.Reason)
	}
	a.tale.Note(name, text)
	if a.node != nil {
		for _, was := range a.node.Status.Conditions {
			for _, is := range n.Status.Conditions {
				if was.Type == is.Type && was.Status == is.Status && !was.LastTransitionTime.Equal(&is.LastTransitionTime) {
					a.differ("%s: %s stays %s, but its transition moves from %v to %v", name, is.Type, is.Status, was.LastTransitionTime, is.LastTransitionTime)
				}
			}
		}
	}
	a.node = n
}

func (a *account) lease(c memoryapi.Change, l *coordinationv1.Lease) {
	name := a.life(c, "lease", l.Name)
	if c.Type == watch.Deleted {
		a.tale.Note(name, "deleted")
		return
	}
	if a.node == nil {
		a.differ("%s: renewed while there is no Node", name)
		return
	}
	owned := len(l.OwnerReferences) == 1 && l.OwnerReferences[0].UID == a.node.UID
	a.tale.Note(name, fmt.Sprintf("held by %s for %d s, owned by the Node's present life: %t", *l.Spec.HolderIdentity, *l.Spec.LeaseDurationSeconds, owned))
	gap := c.At.Sub(a.renewed)
	if !a.renewed.IsZero() && gap > time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second {
		a.differ("%s: had run out for %s", name, gap)
	}
	a.renewed = c.At
}
