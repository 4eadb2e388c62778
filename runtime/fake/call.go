package fake

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Method names a call of the runtime or image service.
type Method string

// The methods. GetContainerEvents is recorded when the stream ends.
const (
	Version            Method = "Version"
	Status             Method = "Status"
	RunPodSandbox      Method = "RunPodSandbox"
	StopPodSandbox     Method = "StopPodSandbox"
	RemovePodSandbox   Method = "RemovePodSandbox"
	PodSandboxStatus   Method = "PodSandboxStatus"
	ListPodSandbox     Method = "ListPodSandbox"
	CreateContainer    Method = "CreateContainer"
	StartContainer     Method = "StartContainer"
	StopContainer      Method = "StopContainer"
	RemoveContainer    Method = "RemoveContainer"
	ContainerStatus    Method = "ContainerStatus"
	ListContainers     Method = "ListContainers"
	ExecSync           Method = "ExecSync"
	ReopenContainerLog Method = "ReopenContainerLog"
	GetContainerEvents Method = "GetContainerEvents"
	ListImages         Method = "ListImages"
	ImageStatus        Method = "ImageStatus"
	PullImage          Method = "PullImage"
	RemoveImage        Method = "RemoveImage"

	UpdateContainerResources  Method = "UpdateContainerResources"
	UpdatePodSandboxResources Method = "UpdatePodSandboxResources"
	ContainerStats            Method = "ContainerStats"
	ListContainerStats        Method = "ListContainerStats"
	ListPodSandboxStats       Method = "ListPodSandboxStats"

	// ExecStream, AttachStream and PortForwardStream ask for the URL of a stream.
	ExecStream        Method = "Exec"
	AttachStream      Method = "Attach"
	PortForwardStream Method = "PortForward"
)

// Call is one call the fake received.
type Call struct {
	// Seq numbers all calls in the order they began, from 1; Number those of
	// this Method.
	Seq    int
	Number int
	Method Method

	// PodUID, Pod (its name) and Container name the object of the call. They are
	// empty for lists, images and unknown IDs.
	PodUID    types.UID
	Pod       string
	Container string
	// SandboxID and ContainerID are as given by the caller, or as returned by
	// RunPodSandbox and CreateContainer.
	SandboxID   string
	ContainerID string
	// Request is the call's CRI request, for example
	// *runtimeapi.CreateContainerRequest. Read-only.
	Request any

	// Start and End are times of the fake's clock. End is zero while the call
	// is in flight, see Done.
	Start time.Time
	End   time.Time
	Done  bool
	// Err is what the caller got.
	Err error
}

// Match selects calls. Every field that is set must fit; the zero Match selects
// every call.
type Match struct {
	Method    Method
	PodUID    types.UID
	Pod       string
	Container string
	// Func, if set, decides after all other fields fit. It is called without
	// locks held, possibly concurrently, with a call that has not ended.
	Func func(Call) bool
}

// static reports whether the fields other than Func fit.
func (m Match) static(c *Call) bool {
	return (m.Method == "" || m.Method == c.Method) &&
		(m.PodUID == "" || m.PodUID == c.PodUID) &&
		(m.Pod == "" || m.Pod == c.Pod) &&
		(m.Container == "" || m.Container == c.Container)
}

// matches reports whether the call fits.
func (m Match) matches(c Call) bool {
	return m.static(&c) && (m.Func == nil || m.Func(c))
}

// ledger keeps the calls. It is guarded by the runtime's lock.
type ledger struct {
	limit       int
	calls       []*Call
	seq         int
	numbers     map[Method]int
	inFlight    int
	maxInFlight int
}

// begin adds a call.
func (l *ledger) begin(c Call, now time.Time) *Call {
	l.seq++
	l.numbers[c.Method]++
	c.Seq, c.Number, c.Start = l.seq, l.numbers[c.Method], now
	call := &c
	l.calls = append(l.calls, call)
	// Drop in bulk: a copy per call would make a long run quadratic.
	if l.limit > 0 && len(l.calls) >= 2*l.limit {
		l.calls = slices.Clone(l.calls[len(l.calls)-l.limit:])
	}
	l.inFlight++
	l.maxInFlight = max(l.maxInFlight, l.inFlight)
	return call
}

// end closes a call.
func (l *ledger) end(c *Call, now time.Time, err error) {
	c.End, c.Done, c.Err = now, true, err
	l.inFlight--
}

// Calls returns copies of the recorded calls that match, in the order they
// began; see Options.MaxCalls.
func (f *Runtime) Calls(m Match) []Call {
	f.mu.Lock()
	recorded := f.ledger.calls
	if limit := f.ledger.limit; limit > 0 && len(recorded) > limit {
		recorded = recorded[len(recorded)-limit:]
	}
	calls := make([]Call, 0, len(recorded))
	for _, c := range recorded {
		if m.static(c) {
			calls = append(calls, *c)
		}
	}
	f.mu.Unlock()
	if m.Func == nil {
		return calls
	}
	return slices.DeleteFunc(calls, func(c Call) bool { return !m.Func(c) })
}

// CallCount returns how many calls of the method began, forgotten ones included.
// For "" it counts the calls of all methods.
func (f *Runtime) CallCount(m Method) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m == "" {
		return f.ledger.seq
	}
	return f.ledger.numbers[m]
}

// InFlight returns how many calls are in flight now, and the highest number so far. Event streams count.
func (f *Runtime) InFlight() (now, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ledger.inFlight, f.ledger.maxInFlight
}
