package podwrighttest

import (
	"time"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// Exit ends a running container of a pod at once, with a code, as if it had ended by itself.
func (n *Node) Exit(pod, container string, code int32) {
	n.t.Helper()
	p := n.Pod(pod)
	if p == nil {
		n.t.Fatalf("Exit: no pod %s", pod)
	}
	if err := n.runtime.Exit(p.UID, container, fake.Exit{Code: code}); err != nil {
		n.t.Fatalf("Exit: %v", err)
	}
}

// Fail makes every call of a method of the runtime fail without effect, until mend is called. For finer
// faults, such as the third call for one pod or an error after the effect, use [fake.Runtime.Inject].
func (n *Node) Fail(method fake.Method, err error) (mend func()) {
	return n.runtime.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Err: err}})
}

// Hang makes every call of a method of the runtime hang without effect. After limit a call fails with
// [runtime.ErrDeadline], as through a CRI adapter; 0 means that it hangs until its caller gives up. mend
// ends the fault for new calls; those that hang already continue to hang.
func (n *Node) Hang(method fake.Method, limit time.Duration) (mend func()) {
	effect := fake.Effect{Delay: limit, Err: runtime.ErrDeadline}
	if limit <= 0 {
		effect = fake.Effect{Hang: true}
	}
	return n.runtime.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: effect})
}
