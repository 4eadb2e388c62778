package podwrighttest

import (
	"time"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// Exit ends a running container of a pod with a code, now and as if by itself.
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

// Fail makes every call of a method of the runtime fail, undone, until mend is called. Finer faults,
// such as the third call for one pod or an error after the deed, are [fake.Runtime.Inject]'s.
func (n *Node) Fail(method fake.Method, err error) (mend func()) {
	return n.runtime.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Err: err}})
}

// Hang makes every call of a method of the runtime wait, undone, until its caller gives up, or
// fail with [runtime.ErrDeadline] after a time, as a CRI adapter ends a call; 0 means never. It lasts until
// mend is called, for calls that hang by then to their own end.
func (n *Node) Hang(method fake.Method, limit time.Duration) (mend func()) {
	effect := fake.Effect{Delay: limit, Err: runtime.ErrDeadline}
	if limit <= 0 {
		effect = fake.Effect{Hang: true}
	}
	return n.runtime.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: effect})
}
