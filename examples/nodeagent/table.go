package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// table renders pods as kubectl prints them.
func table(pods []v1.Pod, now time.Time) []string {
	lines := podGrid(pods, now, false).lines()
	if len(pods) == 0 {
		lines = append(lines, "(no pods)")
	}
	return lines
}

// podGrid has a row for each pod; a wide one has more columns.
func podGrid(pods []v1.Pod, now time.Time, wide bool) *grid {
	g := &grid{}
	head := []string{"NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"}
	if wide {
		head = append(head, "IP", "NODE", "QOS", "UID")
	}
	g.add(head...)
	for i := range pods {
		p := &pods[i]
		ready, total, restarts := counts(p)
		row := []string{p.Namespace, p.Name, fmt.Sprintf("%d/%d", ready, total), podStatus(p), restartText(p, restarts, now), age(p, now)}
		if wide {
			row = append(row, cmp.Or(p.Status.PodIP, "-"), cmp.Or(p.Spec.NodeName, "-"), cmp.Or(string(p.Status.QOSClass), "-"), string(p.UID))
		}
		g.add(row...)
	}
	return g
}

// counts returns how many of the containers that run side by side are ready and how many there are,
// and the restarts of all containers.
func counts(p *v1.Pod) (ready, total int, restarts int32) {
	total = len(p.Spec.Containers)
	for _, c := range p.Status.ContainerStatuses {
		if c.Ready {
			ready++
		}
		restarts += c.RestartCount
	}
	sidecars := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		if isSidecar(&c) {
			sidecars[c.Name] = true
			total++
		}
	}
	for _, c := range p.Status.InitContainerStatuses {
		if sidecars[c.Name] && c.Ready {
			ready++
		}
		restarts += c.RestartCount
	}
	return ready, total, restarts
}

// restartText adds the time of the last restart, as kubectl does.
func restartText(p *v1.Pod, restarts int32, now time.Time) string {
	text := strconv.Itoa(int(restarts))
	var last time.Time
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(last) {
				last = t.FinishedAt.Time
			}
		}
	}
	if restarts == 0 || last.IsZero() {
		return text
	}
	return fmt.Sprintf("%s (%s ago)", text, duration.HumanDuration(now.Sub(last)))
}

func age(p *v1.Pod, now time.Time) string {
	if p.Status.StartTime.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(p.Status.StartTime.Time))
}

// podStatus is the one word that says the most about a pod.
func podStatus(p *v1.Pod) string {
	text := string(p.Status.Phase)
	if p.Status.Reason != "" {
		text = p.Status.Reason
	}
	if init, blocked := initStatus(p); blocked {
		text = init
	} else if word := appStatus(p); word != "" {
		text = word
	}
	if p.DeletionTimestamp != nil && p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
		return "Terminating"
	}
	return text
}

// initStatus returns the state of the first unfinished init container, and whether there is one.
func initStatus(p *v1.Pod) (string, bool) {
	for i, c := range p.Status.InitContainerStatuses {
		sidecar := i < len(p.Spec.InitContainers) && isSidecar(&p.Spec.InitContainers[i])
		switch {
		case c.State.Terminated != nil && !failedRun(c.State.Terminated, !sidecar),
			sidecar && c.Started != nil && *c.Started:
			continue
		case c.State.Terminated != nil:
			return "Init:" + exitWord(c.State.Terminated), true
		case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
			return "Init:" + c.State.Waiting.Reason, true
		}
		return fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers)), true
	}
	return "", false
}

// isSidecar reports whether an init container runs beside the pod's containers.
func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// failedRun reports whether a run has failed. An init container that the kernel killed for its memory has failed
// whatever its code: its work is not done.
func failedRun(t *v1.ContainerStateTerminated, init bool) bool {
	return t.ExitCode != 0 || init && t.Reason == "OOMKilled"
}

// appStatus returns the most telling state among the app containers, "" if the
// phase says it all.
func appStatus(p *v1.Pod) string {
	word, running := "", false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := p.Status.ContainerStatuses[i]
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			word = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			word = exitWord(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			running = true
		}
	}
	if word == "Completed" && running {
		return "NotReady"
	}
	return word
}

// exitWord describes how a container ended.
func exitWord(t *v1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return "Signal:" + strconv.Itoa(int(t.Signal))
	default:
		return "ExitCode:" + strconv.Itoa(int(t.ExitCode))
	}
}
