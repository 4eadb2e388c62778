package runtimetest

import (
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/cri"
)

// Factory returns the runtime under test. It is called once per case, on the
// goroutine of that case; it may hand out the same services each time. It registers
// t.Cleanup for what it starts, which runs after the case's own clean-up.
type Factory func(t *testing.T) Subject

// Subject is a runtime under test and what the suite must know to use it.
type Subject struct {
	// Runtime and Images are the services under test. Required.
	Runtime cri.RuntimeService
	Images  cri.ImageService

	// Image is an image in the store from which Command's argv can run. The
	// suite never removes it. Required.
	Image string
	// Command turns a program into the argv for that image, for containers
	// and for ExecSync; see [Shell]. Required.
	Command func(Program) []string

	// PullImage is an image that can be pulled and may be removed. Empty:
	// cases that pull are skipped.
	PullImage string
	// AbsentImage is an image that is neither in the store nor pullable.
	// Empty means one on a loopback port without a registry.
	AbsentImage string
	// WorkingDir is a folder other than "/" that exists in Image. Empty means
	// "/tmp".
	WorkingDir string
	// LogDir is a folder the runtime can write log files to and the test can
	// read. Empty means a temporary folder of the case.
	LogDir string
	// RuntimeHandler is passed to RunPodSandbox; empty is the default one.
	RuntimeHandler string
	// AdjustSandbox, if set, may change each sandbox config before it is used
	// (cgroup parent, namespaces). It must leave metadata, labels,
	// annotations and the log directory alone.
	AdjustSandbox func(*runtimeapi.PodSandboxConfig)

	// Clock paces polling. Nil means the real clock. It must advance by
	// itself: real time, or the real clock in a testing/synctest bubble.
	Clock clock.WithTicker
	// Timeout limits one case, on the context. 0 means one minute. A case whose
	// calls go on for 10 s longer fails with their stacks and is left behind.
	Timeout time.Duration
	// LogWait limits the wait for the log file of a container that has started, which is
	// only long where a runtime writes no logs. 0 means 2 s.
	LogWait time.Duration
	// Limits says what the runtime cannot do by design.
	Limits Limits
}

// Limits names abilities that a runtime lacks by design. The zero value means that it
// has all. Cases about a missing ability are skipped with a message.
type Limits struct {
	// NoPodIP: sandboxes have no address of their own.
	NoPodIP bool
	// NoHostNetwork: sandboxes cannot share the node's network.
	NoHostNetwork bool
	// NoMounts: containers cannot have mounts.
	NoMounts bool
	// NoLogReopen: ReopenContainerLog is not implemented.
	NoLogReopen bool
	// NoEvents: there is no event stream, though the type has the method. A
	// stream that ends with runtime.ErrUnimplemented says the same.
	NoEvents bool
}

// Case is one case of the suite.
type Case struct {
	// Name is unique, "group/what is promised".
	Name string
	// Run executes the case on a fresh subject. It calls no t.Run and no
	// t.Parallel, so it may be run in a testing/synctest bubble.
	Run func(t *testing.T, factory Factory)
}

// Run runs every case as a subtest of t, one after the other.
func Run(t *testing.T, factory Factory) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, factory) })
	}
}

// Cases returns the suite, for callers that wrap each case:
//
//	for _, c := range runtimetest.Cases() {
//		t.Run(c.Name, func(t *testing.T) {
//			synctest.Test(t, func(t *testing.T) { c.Run(t, factory) })
//		})
//	}
func Cases() []Case {
	var cases []Case
	for _, group := range []struct {
		name  string
		cases []namedCase
	}{
		{"runtime", runtimeCases()},
		{"sandbox", sandboxCases()},
		{"container", containerCases()},
		{"stop", stopCases()},
		{"exec", execCases()},
		{"log", logCases()},
		{"image", imageCases()},
		{"resources", resourceCases()},
		{"concurrent", concurrencyCases()},
		{"event", eventCases()},
	} {
		for _, c := range group.cases {
			cases = append(cases, Case{Name: group.name + "/" + c.name, Run: func(t *testing.T, factory Factory) {
				t.Helper()
				runCase(t, factory, c.run)
			}})
		}
	}
	return cases
}

// namedCase is a case as its group's table lists it.
type namedCase struct {
	name string
	run  func(e *env)
}
