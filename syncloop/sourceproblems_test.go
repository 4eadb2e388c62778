package syncloop

import (
	"errors"
	"testing"
	"time"

	"github.com/podwright/podwright/internal/problem"
)

// TestSourceProblems: what is wrong with a source, since when, and whether its pods suffer (section 8, SRC4).
func TestSourceProblems(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	bad := errors.New("bad")
	for _, tc := range []struct {
		name   string
		status SourceStatus
		waits  string // empty: no problem
		since  int
	}{
		{"well", SourceStatus{Ready: true, Health: SourceHealth{LastSuccess: at(90)}}, "", 0},
		{"not heard yet", SourceStatus{Started: at(80)}, "", 0},
		{"never heard", SourceStatus{Started: at(50)}, "the source's first word", 50},
		{"fails since its last success", SourceStatus{Ready: true, Started: at(10), Health: SourceHealth{LastSuccess: at(40), LastError: bad, LastErrorAt: at(90)}}, "the source to be read", 40},
		{"always failed", SourceStatus{Started: at(10), Health: SourceHealth{LastError: bad, LastErrorAt: at(90)}}, "the source to be read", 10},
		{"a failure without its time", SourceStatus{Ready: true, Started: at(10), Health: SourceHealth{LastSuccess: at(40), LastError: bad}}, "the source to be read", 40},
		{"a warning", SourceStatus{Ready: true, Started: at(10), Health: SourceHealth{LastSuccess: at(90), LastError: bad, LastErrorAt: at(30)}}, "what the source reads to be mended", 30},
		{"Run fails", SourceStatus{Ready: true, Started: at(10), RunError: bad, FailingSince: at(60), Health: SourceHealth{LastSuccess: at(40)}}, "the source to be read", 60},
		{"a read under way", SourceStatus{Ready: true, Health: SourceHealth{LastSuccess: at(60), Pending: at(80)}}, "", 0},
		{"a read that hangs", SourceStatus{Ready: true, Health: SourceHealth{LastSuccess: at(40), Pending: at(60)}}, "a read of the source to end", 60},
		{"the first read hangs", SourceStatus{Started: at(59), Health: SourceHealth{Pending: at(60)}}, "a read of the source to end", 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.status.Name = "files"
			got := tc.status.problems(at(100))
			if len(got) == 0 && tc.waits == "" {
				return
			}
			if len(got) != 1 || got[0].Waits != tc.waits || !got[0].Since.Equal(at(tc.since)) || got[0].Kind != problem.Source || got[0].Advice == "" {
				t.Errorf("%+v, want one that waits for %q since %v", got, tc.waits, at(tc.since))
			}
		})
	}
}
