package optioncheck_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/optioncheck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCheck: each option that the user must not set is named, with what to do instead.
func TestCheck(t *testing.T) {
	type options struct {
		Name        string
		Hidden      []string
		Limit, Wait time.Duration
		Free        int
		BackOff     struct{ Initial, Max time.Duration }
	}
	backwards := options{}
	backwards.BackOff.Max = -time.Second
	engine := map[string]string{"Name": "Node.Name", "Hidden": ""}
	for _, test := range []struct {
		name    string
		options options
		want    string
	}{
		{"nothing is set", options{}, ""},
		{"what is the user's", options{Free: -1, Limit: time.Second, Wait: -1}, ""},
		{"the engine's, with another way", options{Name: "n"}, "Pods.Name is set by the engine: use Node.Name"},
		{"the engine's alone", options{Hidden: []string{"x"}}, "Pods.Hidden is set by the engine: leave it empty"},
		{"a negative duration", options{Limit: -1}, "Pods.Limit is negative: -1ns"},
		{"a negative duration in a struct", backwards, "Pods.BackOff.Max is negative: -1s"},
		{"all at once", options{Name: "n", Limit: -1}, "Pods.Name is set by the engine: use Node.Name\nPods.Limit is negative: -1ns"},
	} {
		err := errors.Join(optioncheck.Check([]optioncheck.Part{{Group: "Pods", Options: test.options, Engine: engine, Negative: []string{"Wait"}}})...)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
