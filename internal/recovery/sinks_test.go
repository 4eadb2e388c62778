package recovery

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status"
)

// keeper is a sink that keeps statuses if kept is true, reader one that reads before it writes.
type (
	keeper struct {
		*status.ChannelSink
		kept bool
	}
	reader struct{ *status.ChannelSink }
)

func (k keeper) Persistent() bool { return k.kept }

func (reader) ReadPod(context.Context, status.PodRef) (*v1.Pod, error) { return nil, nil }

// nameless is a sink that keeps statuses and has no name.
type nameless struct{ status.StatusSink }

func (nameless) Persistent() bool { return true }

// TestCheckSinks: sinks that keep statuses need names of their own; others may share one, or have none.
func TestCheckSinks(t *testing.T) {
	channel := status.NewChannelSink(0)
	unnamed := status.SinkFunc(nil)
	for _, test := range []struct {
		name  string
		sinks []status.StatusSink
		want  string
	}{
		{"none", nil, ""},
		{"two of one name", []status.StatusSink{channel, channel, keeper{channel, false}}, ""},
		{"without names", []status.StatusSink{unnamed, unnamed}, ""},
		{"one is missing", []status.StatusSink{channel, nil}, "Observe.Sinks[1] is nil"},
		{"two that keep", []status.StatusSink{keeper{channel, true}, unnamed, keeper{channel, true}}, "Observe.Sinks[0] and [2] are both named"},
		{"one of two keeps", []status.StatusSink{channel, keeper{channel, true}}, "Observe.Sinks[0] and [1] are both named"},
		{"one that keeps has no name", []status.StatusSink{unnamed, nameless{unnamed}}, "Observe.Sinks[1], a recovery.nameless, keeps what it has"},
		{"two before an API", []status.StatusSink{reader{channel}, reader{channel}}, "Observe.Sinks[0] and [1] are both named"},
	} {
		err := errors.Join(CheckSinks(test.sinks)...)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}
