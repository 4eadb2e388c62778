package kube

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/status"
)

// TestTakenNodeTellsNothing (KN1): while another machine is the Node, nothing is told of pods. An API server that is away
// afterwards does not change that, a registration does.
func TestTakenNodeTellsNothing(t *testing.T) {
	var other taken
	sink := ownSink{nil, &other}
	if err := other.Withheld(); err != nil {
		t.Error(err)
	}
	for _, answer := range []error{fmt.Errorf("register: %w", node.ErrTaken), errors.New("no route to host")} {
		other.note(answer)
		if _, err := sink.ReadPod(t.Context(), status.PodRef{}); !errors.Is(err, node.ErrTaken) {
			t.Errorf("after %v: %v", answer, err)
		}
	}
	other.note(nil)
	if err := other.Withheld(); err != nil {
		t.Error(err)
	}
}
