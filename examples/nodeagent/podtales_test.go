//go:build containerd

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// podTale is what a file of statuses tells of a pod with one container.
type podTale struct {
	phase    v1.PodPhase
	restarts int32
	ready    bool
	finished bool
	// reasons are what was given for its being Failed.
	reasons []string
	// ends are the exit codes by restart count. cutOff are the runs that the runtime
	// gave up while it started them, as it does when its caller goes away.
	ends   map[int32]int32
	cutOff map[int32]bool
	runs   map[string]int32 // by container ID
	// flaps are statuses that took back what was told before. heard are all statuses in short,
	// without repeats; latest is the last of them.
	flaps, heard []string
	latest       string

	stage  int             // how far the current run is
	wasOff map[string]bool // container IDs that were ready and are not any more
}

// storybook reads a file of statuses as it grows.
type storybook struct {
	path string
	node string // the node's name
	read int64
	// tales by pod name without the node's suffix.
	tales map[string]*podTale
}

// open returns the tales with what has been written since the last look.
func (b *storybook) open(t *testing.T) map[string]*podTale {
	t.Helper()
	f, err := os.Open(b.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(b.read, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return b.tales // a line without its end is read again
		}
		if err != nil {
			t.Fatal(err)
		}
		b.read += int64(len(line))
		b.add(line)
	}
}

// add takes in a line. One that a kill has cut off does not count: it is told again.
func (b *storybook) add(text []byte) {
	var line struct {
		Time      time.Time     `json:"time"`
		Version   uint64        `json:"version"`
		Name      string        `json:"name"`
		Finished  bool          `json:"finished"`
		Forgotten bool          `json:"forgotten"`
		Status    *v1.PodStatus `json:"status"`
	}
	if json.Unmarshal(text, &line) != nil || line.Status == nil || line.Forgotten {
		return // that a pod is forgotten is told again by an agent that follows a killed one
	}
	name := strings.TrimSuffix(line.Name, "-"+cmp.Or(b.node, "n1"))
	tale := b.tales[name]
	if tale == nil {
		tale = &podTale{ends: map[int32]int32{}, cutOff: map[int32]bool{}, runs: map[string]int32{}, wasOff: map[string]bool{}}
		b.tales[name] = tale
	}
	heard := fmt.Sprintf("%d %s", line.Version, briefly(line.Status, line.Finished))
	if heard != tale.latest {
		tale.latest = heard
		tale.heard = append(tale.heard, line.Time.Format(time.StampMilli)+" "+heard)
	}
	tale.hear(line.Status, line.Finished)
}

// briefly is a status in a few words.
func briefly(s *v1.PodStatus, finished bool) string {
	text := string(s.Phase)
	if finished {
		text += ", finished"
	}
	for _, c := range s.ContainerStatuses {
		text += fmt.Sprintf(", %s run %d", c.Name, c.RestartCount)
		for _, state := range [...]v1.ContainerState{c.State, c.LastTerminationState} {
			switch {
			case state.Waiting != nil:
				text += " waiting " + state.Waiting.Reason
			case state.Running != nil:
				text += " running"
			case state.Terminated != nil:
				text += fmt.Sprintf(" ended %d %s", state.Terminated.ExitCode, state.Terminated.Reason)
			}
		}
	}
	return text
}

// hear takes in a status.
func (p *podTale) hear(s *v1.PodStatus, finished bool) {
	flap := func(format string, args ...any) { p.flaps = append(p.flaps, fmt.Sprintf(format, args...)) }
	rank := map[v1.PodPhase]int{v1.PodPending: 1, v1.PodRunning: 2, v1.PodSucceeded: 3, v1.PodFailed: 3}
	if rank[s.Phase] < rank[p.phase] || rank[p.phase] == 3 && s.Phase != p.phase {
		flap("phase %s after %s", s.Phase, p.phase)
	}
	p.phase = s.Phase
	if reason := s.Reason + ": " + s.Message; s.Phase == v1.PodFailed && !slices.Contains(p.reasons, reason) {
		p.reasons = append(p.reasons, reason)
	}
	if p.finished && !finished {
		flap("not finished any more")
	}
	p.finished = p.finished || finished
	if len(s.ContainerStatuses) == 0 {
		return
	}
	c := s.ContainerStatuses[0]
	stage := stageOf(c)
	if c.RestartCount < p.restarts || c.RestartCount == p.restarts && stage < p.stage {
		flap("run %d is at stage %d after run %d at %d: %+v", c.RestartCount, stage, p.restarts, p.stage, c.State)
	}
	p.restarts, p.stage = c.RestartCount, stage
	if p.ready && !c.Ready {
		p.wasOff[c.ContainerID] = true
		if stage == 2 && s.Phase == v1.PodRunning {
			flap("a container that runs is not ready any more")
		}
	}
	if c.Ready && p.wasOff[c.ContainerID] {
		flap("container %s is ready again", c.ContainerID)
	}
	p.ready = c.Ready
	p.hearEnd(c.RestartCount, c.State.Terminated)
	if c.State.Waiting != nil && stage == 3 {
		p.hearEnd(c.RestartCount, c.LastTerminationState.Terminated)
	} else {
		p.hearEnd(c.RestartCount-1, c.LastTerminationState.Terminated)
	}
}

// hearEnd takes in how a run ended.
func (p *podTale) hearEnd(run int32, end *v1.ContainerStateTerminated) {
	if end == nil {
		return
	}
	if at, known := p.runs[end.ContainerID]; known {
		run = at
	}
	p.runs[end.ContainerID] = run
	before, known := p.ends[run]
	if known && before != end.ExitCode {
		p.flaps = append(p.flaps, fmt.Sprintf("run %d ended with %d (%s) after it had ended with %d", run, end.ExitCode, end.Reason, before))
	}
	if end.Reason == "StartError" {
		p.cutOff[run] = true
	}
	p.ends[run] = end.ExitCode
}

// stageOf is how far the run is that the restart count names: waiting, running,
// ended. What waits after a run is counted when it is started; a guess at how a run
// ended is counted at once.
func stageOf(c v1.ContainerStatus) int {
	last := c.LastTerminationState.Terminated
	switch {
	case c.State.Running != nil:
		return 2
	case c.State.Terminated != nil, last != nil && last.Reason != "ContainerStatusUnknown":
		return 3
	}
	return 1
}

// codes are the exit codes of the runs that were started, in their order.
func (p *podTale) codes() []int32 {
	var codes []int32
	for _, run := range slices.Sorted(maps.Keys(p.ends)) {
		if !p.cutOff[run] {
			codes = append(codes, p.ends[run])
		}
	}
	return codes
}
