package flawtest

import (
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sums is a kit for functions that add.
var sums = map[string]func(add func(a, b int) int) error{
	"adds":    func(add func(a, b int) int) error { return is(add(1, 2), 3) },
	"adds 0s": func(add func(a, b int) int) error { return is(add(0, 0), 0) },
}

func is(got, want int) error {
	if got != want {
		return errors.New("it does not")
	}
	return nil
}

func kit() Kit {
	k := Kit{Caught: map[string]string{"takes away": "adds", "begins at 1": "adds 0s"}, Says: map[string]string{"takes away": "it does not"}}
	for name, check := range sums {
		k.Cases = append(k.Cases, Case{Name: name, Run: func(t *testing.T, flaw string) {
			flawed := func(a, b int) int { return a - b }
			if flaw == "begins at 1" {
				flawed = func(a, b int) int { return 1 + a + b }
			}
			if err := check(flawed); err != nil {
				t.Error(err)
			}
		}})
	}
	return k
}

func TestFlawed(t *testing.T)         { kit().Flawed(t) }
func TestCasesHaveFlaws(t *testing.T) { kit().CasesHaveFlaws(t) }
func TestFlawsAreCaught(t *testing.T) { kit().FlawsAreCaught(t) }
