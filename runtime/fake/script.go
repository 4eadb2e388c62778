package fake

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Launch describes a container that is about to be created.
type Launch struct {
	// PodUID, PodName and PodNamespace are those of the sandbox's metadata.
	PodUID       types.UID
	PodName      string
	PodNamespace string
	// Container, Attempt and Image are from the container's config.
	Container string
	Attempt   uint32
	Image     string
	// Number counts the creations of this container name in this pod,
	// beginning with 1. It survives Reboot and LoseRecords.
	Number int
	// Config is the whole config, a copy the callee may keep.
	Config *runtimeapi.ContainerConfig
}

// Script is what one container does. The zero Script starts, is ready at once,
// and runs until it is told to stop, when it exits with code 0.
type Script struct {
	// CreateErr makes CreateContainer fail; no container is made.
	CreateErr error
	// StartErr makes StartContainer fail. As in real runtimes the container
	// has then exited, with code 128 and reason StartError.
	StartErr error

	// Exit is how and when the container ends by itself; nil means it runs
	// until it is stopped.
	Exit *Exit
	// Crashes is how many of the first creations of this container end with
	// Crash instead of Exit.
	Crashes int
	// Crash is the end of a run that Crashes counts. A zero Code means 1.
	Crash Exit

	// IgnoreTERM makes the container ignore SIGTERM; only the SIGKILL after
	// the grace period ends it.
	IgnoreTERM bool
	// OnTERM is how the container ends after SIGTERM: Exit.After is how long
	// that takes.
	OnTERM Exit

	// ReadyAfter is how long after its start the container becomes ready, see
	// [Runtime.Ready].
	ReadyAfter time.Duration
	// Exec answers ExecSync. It is called without locks held and may be
	// called concurrently. Nil means: exit code 0 if the container is ready,
	// otherwise 1.
	Exec func(Exec) ExecResult

	// Log is what the container writes. A line after the container's end is
	// not written.
	Log []Line
}

// Exit is the end of a container.
type Exit struct {
	// After is the time from the start (from the signal, for Script.OnTERM)
	// to the end.
	After time.Duration
	// Code is the exit code.
	Code int32
	// Reason and Message appear in the status. An empty Reason means
	// Completed for code 0 and Error for any other.
	Reason  string
	Message string
}

// Line is a piece of output.
type Line struct {
	// After is the time from the start.
	After time.Duration
	// Every, if positive, repeats the line in this interval until the
	// container ends.
	Every time.Duration
	// Stderr selects the stream.
	Stderr bool
	// Text is one line without its newline. It is split into partial entries
	// of 16 KiB.
	Text string
}

// Exec is one command to run in a container.
type Exec struct {
	PodUID    types.UID
	Container string
	// Cmd is the argv.
	Cmd []string
	// Ready is whether the container is ready, see [Runtime.Ready].
	Ready bool
	// Config is the container's config. Read-only.
	Config *runtimeapi.ContainerConfig
}

// ExecResult is what a command does.
type ExecResult struct {
	// Took is how long it runs. If that exceeds ExecSync's timeout, the error is
	// runtime.ErrDeadline.
	Took time.Duration
	// Code other than 0 becomes a *runtime.ExitError.
	Code   int
	Stdout string
	Stderr string
	// Err makes ExecSync itself fail.
	Err error
}
