package complaint_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/complaint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Example shows a minute of failures, one attempt a second.
func Example() {
	log := funcr.New(func(_, args string) { fmt.Println(args) }, funcr.Options{})
	var c complaint.Complaint
	start := time.Unix(0, 0)
	for i := range 45 {
		c.Note(log, start.Add(time.Duration(i)*time.Second), errors.New("refused"), "list failed", "list works again")
	}
	c.Note(log, start.Add(45*time.Second), nil, "list failed", "list works again")
	c.Note(log, start.Add(46*time.Second), nil, "list failed", "list works again")
	// Output:
	// "msg"="list failed" "error"="refused" "failedFor"="0s" "unreported"=0
	// "msg"="list failed" "error"="refused" "failedFor"="30s" "unreported"=29
	// "level"=0 "msg"="list works again" "failedFor"="45s"
}

// TestChangedFailure: another failure is news at once, and does not restart the clock
// of the first.
func TestChangedFailure(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	var c complaint.Complaint
	start := time.Unix(0, 0)
	for i, text := range []string{"refused", "refused", "hangs", "hangs", "refused"} {
		c.Note(log, start.Add(time.Duration(i)*time.Second), errors.New(text), "list failed", "list works again")
	}
	if len(lines) != 3 {
		t.Errorf("%d lines, want 3: %q", len(lines), lines)
	}
	c.Note(log, start.Add(9*time.Second), nil, "list failed", "list works again")
	if want := `"level"=0 "msg"="list works again" "failedFor"="9s"`; lines[len(lines)-1] != want {
		t.Errorf("last line %s, want %s", lines[len(lines)-1], want)
	}
}
