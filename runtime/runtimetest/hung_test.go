package runtimetest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/fake/faketest"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// deaf is a runtime with calls that neither return nor heed their context.
type deaf struct {
	*fake.Runtime
	methods string
	never   chan struct{}
}

func (d deaf) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	if strings.Contains(d.methods, "ContainerStatus") {
		<-d.never
	}
	return d.Runtime.ContainerStatus(ctx, id, verbose)
}

func (d deaf) RemovePodSandbox(ctx context.Context, id string) error {
	if strings.Contains(d.methods, "RemovePodSandbox") {
		<-d.never
	}
	return d.Runtime.RemovePodSandbox(ctx, id)
}

// hurried is a clock whose timers ring early, for a case that is going to use up all its time.
type hurried struct{ clock.RealClock }

func (hurried) NewTimer(d time.Duration) clock.Timer { return clock.RealClock{}.NewTimer(d / 100) }

// envDeaf names the calls that hang in a child process.
const envDeaf = "PODWRIGHT_RUNTIMETEST_DEAF"

// TestDeaf is the child: a case on a deaf runtime, and one on a sound one after it.
func TestDeaf(t *testing.T) {
	methods := os.Getenv(envDeaf)
	if methods == "" {
		t.Skip("runs as a child of TestHungCallFailsItsCase")
	}
	for _, c := range runtimetest.Cases() {
		switch c.Name {
		case "container/created, running, exited, gone":
			t.Run(c.Name, func(t *testing.T) {
				c.Run(t, func(*testing.T) runtimetest.Subject {
					f := fake.New(faketest.Options())
					s := faketest.Subject(deaf{f, methods, make(chan struct{})}, f)
					s.Clock = hurried{}
					return s
				})
			})
		case "container/exit codes arrive":
			t.Run(c.Name, func(t *testing.T) {
				c.Run(t, func(*testing.T) runtimetest.Subject {
					f := fake.New(faketest.Options())
					return faketest.Subject(f, f)
				})
			})
		}
	}
}

// A call that ignores its context fails its case, which names itself and the call, and so does
// one in a clean-up after that; the suite goes on.
func TestHungCallFailsItsCase(t *testing.T) {
	if os.Getenv(envDeaf) != "" {
		t.Skip("this is the child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const body, cleanup = "the case", "a clean-up"
	for methods, parts := range map[string][]string{
		"ContainerStatus": {body}, "RemovePodSandbox": {cleanup}, "ContainerStatus RemovePodSandbox": {body, cleanup},
	} {
		t.Run(methods, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestDeaf$", "-test.v")
			cmd.Env = append(os.Environ(), envDeaf+"="+methods)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the child passes")
			}
			wants := []string{
				"--- FAIL: TestDeaf/container/created,_running,_exited,_gone",
				"--- PASS: TestDeaf/container/exit_codes_arrive",
			}
			for _, part := range parts {
				wants = append(wants, part+" of TestDeaf/container/created,_running,_exited,_gone has not ended within 1m10s: the runtime ignores its context")
			}
			for method := range strings.FieldsSeq(methods) {
				wants = append(wants, "deaf."+method)
			}
			for _, want := range wants {
				if !strings.Contains(string(out), want) {
					t.Errorf("the output lacks %q:\n%s", want, out)
				}
			}
		})
	}
}
