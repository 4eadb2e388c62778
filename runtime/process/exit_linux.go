package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// Exit codes and reasons, in the words other runtimes use.
const (
	reasonCompleted  = "Completed"
	reasonError      = "Error"
	reasonStartError = "StartError"
	reasonUnknown    = "Unknown"

	codeStartError = 128
	codeUnknown    = 255
	codeSignal     = 128 // plus the signal
)

// exitOf turns a wait status into a record.
func exitOf(status unix.WaitStatus, now time.Time) exitRecord {
	e := exitRecord{FinishedAt: now}
	switch {
	case status.Signaled():
		e.Code, e.Message = codeSignal+int32(status.Signal()), "killed by signal: "+status.Signal().String()
	default:
		e.Code = int32(status.ExitStatus())
	}
	e.Reason = reasonError
	if e.Code == 0 {
		e.Reason = reasonCompleted
	}
	return e
}

// startFailed is the record of a container that could not be started.
func startFailed(err error, now time.Time) exitRecord {
	return exitRecord{Code: codeStartError, Reason: reasonStartError, Message: err.Error(), FinishedAt: now}
}

// unknownExit is the record of a container that ended without a witness: never a success.
func unknownExit(why string, now time.Time) exitRecord {
	return exitRecord{Code: codeUnknown, Reason: reasonUnknown, Message: why, FinishedAt: now}
}
