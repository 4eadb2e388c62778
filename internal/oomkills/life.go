package oomkills

import (
	"time"

	"github.com/podwright/podwright/runtime"
)

const (
	// oomKilled is a runtime's reason for the end of a container.
	oomKilled = "OOMKilled"
	// killedCode is the exit code of a process that was killed.
	killedCode = 137
	// endDelay is how long after a kill the end of the container may come that the kill has led to.
	endDelay = time.Second
)

// life is one run of a container.
type life struct {
	name string
	// path is that of its cgroup, empty while it was not found; searches is how often it was looked for.
	path     string
	searches int
	// seen is true once the cgroup was read.
	seen bool
	// based is false until the first reading of a container that is older than the agent: its kills until
	// then were another agent's to tell.
	based bool
	// count is what the kernel last said, kills what was counted, grewAt when the reading began that last
	// showed more.
	count, kills int64
	grewAt       time.Time
	ended        bool
}

// read takes what the kernel says, as of a reading that began at a time, and returns how many kills are new.
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

// end takes how the run ended, and returns how many kills are new: the one that ended it, unless
// it was read already. Runtimes say OOMKilled also of a container in which a process was killed that
// was not its first one; of one that is stopped an exit by SIGKILL then says nothing.
func (l *life) end(status *runtime.ContainerStatus, stopping bool) int64 {
	l.ended = true
	if status.Reason != oomKilled {
		return 0
	}
	if l.kills > 0 && (stopping || status.ExitCode != killedCode || status.FinishedAt.Sub(l.grewAt) < endDelay) {
		return 0
	}
	l.kills++
	return 1
}
