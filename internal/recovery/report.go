package recovery

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/checkpoint"
)

// Report is what an agent found at its start: its records compared with what the runtime has
// (spec/cleanup.md CK9). It encodes as JSON. UIDs are sorted.
type Report struct {
	// At is when the comparison was made. Rebooted says that records are from before the machine
	// was started.
	At       time.Time `json:"at"`
	Rebooted bool      `json:"rebooted"`
	// Records is how many records could be used.
	Records int `json:"records"`
	// Resumed pods continue: something of them is running.
	Resumed []types.UID `json:"resumed,omitempty"`
	// Ended pods have a terminal phase or are finished, and stay that way.
	Ended []types.UID `json:"ended,omitempty"`
	// Stopping pods were asked to stop before, and something of them is still running.
	Stopping []types.UID `json:"stopping,omitempty"`
	// Lost pods had been started, and nothing of them is running.
	Lost []types.UID `json:"lost,omitempty"`
	// Waiting pods had been admitted but not started, or wait for their next life, as after a drain.
	Waiting []types.UID `json:"waiting,omitempty"`
	// Unknown pods are in the runtime but have no record.
	Unknown []types.UID `json:"unknown,omitempty"`
	// Bad lists what was found among the records but could not be used.
	Bad []checkpoint.Bad `json:"bad,omitempty"`
}

// String returns one line for a log or an event.
func (r Report) String() string {
	text := fmt.Sprintf("pod records: %d (resumed %d, ended %d, stopping %d, lost %d, waiting %d); pods without record: %d",
		r.Records, len(r.Resumed), len(r.Ended), len(r.Stopping), len(r.Lost), len(r.Waiting), len(r.Unknown))
	if r.Rebooted {
		text += "; the machine was restarted"
	}
	if len(r.Bad) > 0 {
		names := make([]string, len(r.Bad))
		for i, b := range r.Bad {
			names[i] = b.String()
		}
		text += "; unusable: " + strings.Join(names, ", ")
	}
	return text
}

// compare sorts the records by what the runtime has of their pods. inRuntime has the pods that the
// runtime knows, and whether anything of them is running.
func compare(records []*checkpoint.Record, inRuntime map[types.UID]bool) Report {
	out := Report{Records: len(records)}
	known := map[types.UID]bool{}
	for _, r := range records {
		known[r.UID] = true
		runs, listed := inRuntime[r.UID]
		switch {
		case r.Finished, r.Terminal() && !runs:
			out.Ended = append(out.Ended, r.UID)
		case r.Termination != nil:
			out.Stopping = append(out.Stopping, r.UID)
		case runs:
			out.Resumed = append(out.Resumed, r.UID)
		case !r.StartedAt.IsZero() || listed:
			out.Lost = append(out.Lost, r.UID)
		default:
			out.Waiting = append(out.Waiting, r.UID)
		}
	}
	for uid := range inRuntime {
		if !known[uid] {
			out.Unknown = append(out.Unknown, uid)
		}
	}
	for _, list := range [][]types.UID{out.Resumed, out.Ended, out.Stopping, out.Lost, out.Waiting, out.Unknown} {
		slices.Sort(list)
	}
	return out
}

// rebooted reports whether the machine was started after a record was written.
func rebooted(r *checkpoint.Record, bootID string) bool {
	return bootID != "" && r.BootID != "" && r.BootID != bootID
}

// ReadBootID names this boot of the machine, "" if that is not known.
func ReadBootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
