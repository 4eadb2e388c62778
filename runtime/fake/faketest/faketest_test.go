package faketest

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An argv that is not a program is an error of the start, not a container that runs
// forever.
func TestScriptRefusesOtherArgv(t *testing.T) {
	for _, argv := range [][]string{nil, {"sleep", "5"}, {"program", "{"}, {"program", "{}", "more"}} {
		s := script(fake.Launch{Config: &runtimeapi.ContainerConfig{Command: argv}})
		if cri.Class(s.StartErr) != runtime.ErrInvalid {
			t.Errorf("argv %q: start error %v", argv, s.StartErr)
		}
		if len(argv) > 0 {
			if got := s.Exec; got != nil {
				t.Errorf("argv %q: commands can run", argv)
			}
		}
	}
}

// A program travels as argv, possibly split between command and args.
func Example() {
	argv := command(runtimetest.Program{Stdout: []string{"hello"}, Run: time.Second, Exit: 3})
	script := script(fake.Launch{Config: &runtimeapi.ContainerConfig{Command: argv[:1], Args: argv[1:]}})
	fmt.Println(script.Log[0].Text, script.Exit.After, script.Exit.Code)
	// Output: hello 1s 3
}
