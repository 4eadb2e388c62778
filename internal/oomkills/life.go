package oomkills

import (
	"time"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

const (
	// killedCode is the exit code of a process that was killed.
	killedCode = 137
	// endDelay is how long after a kill the container's end may come if the kill caused it.
	endDelay = time.Second
)

// life is one run of a container.
type life struct {
	name string
	// path is that of its cgroup, empty until it is found; searches is how often it was searched for.
	path     string
	searches int
	// seen is true once the cgroup was read.
	seen bool
	// based is false until the first reading of a container that is older than the agent: an
	// earlier agent has reported its kills up to then.
	based bool
	// count is what the kernel last reported, kills what was counted, grewAt when the last reading
	// that showed an increase began.
	count, kills int64
	grewAt       time.Time
	ended        bool
}

// read takes the kernel's count, from a reading that began at began, and returns how many kills are new.
func (l *life) read(count int64, began time.Time) int64 {
	if !l.based {
		l.based, l.count = true, count
		return 0
	}
	more := count - l.count
	if more <= 0 {
		return 0
	}
	l.count, l.grewAt = count, began
	l.kills += more
	return more
}

// end takes how the run ended, and returns how many kills are new: the kill that ended the run, unless
// it was already read. Runtimes also report OOMKilled for a container in which a process other than the
// first was killed; for a container that is being stopped, an exit by SIGKILL then proves nothing.
func (l *life) end(status *runtime.ContainerStatus, stopping bool) int64 {
	l.ended = true
	if status.Reason != restartpolicy.OOMKilled {
		return 0
	}
	if l.kills > 0 && (stopping || status.ExitCode != killedCode || status.FinishedAt.Sub(l.grewAt) < endDelay) {
		return 0
	}
	l.kills++
	return 1
}
