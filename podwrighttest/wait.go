package podwrighttest

import (
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// imprecision is how late Wait may notice that a check succeeds.
const imprecision = 250 * time.Millisecond

// Wait lets virtual time pass until check succeeds, and returns how much has passed; after
// Options.Patience the test fails with the last error of check. Success is noticed at most 10 ms
// late, or 2 % of the wait if that is more, up to 250 ms.
func (n *Node) Wait(what string, check func() error) time.Duration {
	n.t.Helper()
	begin := n.clock.Now()
	for {
		synctest.Wait()
		err := check()
		waited := n.clock.Since(begin)
		if err == nil {
			return waited
		}
		left := n.options.Patience - waited
		if left <= 0 {
			n.t.Fatalf("%s: not within %v: %v", what, n.options.Patience, err)
		}
		<-n.clock.After(min(max(10*time.Millisecond, waited/50), imprecision, left))
	}
}

// WaitPhase waits until a pod is in a phase.
func (n *Node) WaitPhase(pod string, phase v1.PodPhase) time.Duration {
	n.t.Helper()
	return n.waitPod(pod, "pod "+pod+" "+string(phase), func(p *v1.Pod) bool { return p.Status.Phase == phase })
}

// WaitReady waits until a pod is ready.
func (n *Node) WaitReady(pod string) time.Duration {
	n.t.Helper()
	return n.waitPod(pod, "pod "+pod+" ready", func(p *v1.Pod) bool { return podinfo.Ready(&p.Status) })
}

func (n *Node) waitPod(pod, what string, ok func(*v1.Pod) bool) time.Duration {
	n.t.Helper()
	return n.Wait(what, func() error {
		p := n.Pod(pod)
		if p == nil {
			return n.unmet(pod, "the engine has no pod of this name")
		}
		if !ok(p) {
			return n.unmet(pod, "phase "+string(p.Status.Phase))
		}
		return nil
	})
}

// WaitGone waits until nothing is left of a pod: the engine does not know it and the
// runtime has nothing of it. See [Node.Remove].
func (n *Node) WaitGone(pod string) time.Duration {
	n.t.Helper()
	namespace, name := split(pod)
	labels := map[string]string{runtime.LabelPodName: name, runtime.LabelPodNamespace: namespace}
	return n.Wait("pod "+pod+" gone", func() error {
		if n.engine == nil {
			return errNoEngine
		}
		if n.Pod(pod) != nil {
			return n.unmet(pod, "the engine has it")
		}
		sandboxes, err := n.runtime.ListPodSandbox(n.t.Context(), &runtimeapi.PodSandboxFilter{LabelSelector: labels})
		if err == nil && len(sandboxes) > 0 {
			return n.unmet(pod, fmt.Sprintf("the runtime has %d sandboxes of it", len(sandboxes)))
		}
		return err
	})
}

// Advance lets virtual time pass, and everything happen that is due by then.
func (n *Node) Advance(d time.Duration) {
	n.t.Helper()
	<-n.clock.After(d)
	synctest.Wait()
}

// Pod returns a pod with its status as the engine has it, nil if the engine has none of this name or no
// engine runs. The caller owns it.
func (n *Node) Pod(pod string) *v1.Pod {
	if n.engine == nil {
		return nil
	}
	p, ok := n.engine.PodNamed(split(pod))
	if !ok {
		return nil
	}
	return p
}

var errNoEngine = errors.New("no engine runs: Start starts one")

// unmet says why a pod is not yet as wanted. The text is made on demand: most checks just come too early.
func (n *Node) unmet(pod, why string) error {
	if n.engine == nil {
		return errNoEngine
	}
	return unmet(func() string {
		text := why
		if p := n.Pod(pod); p != nil {
			e, _ := n.engine.Explain(p.UID)
			for _, c := range e.Containers {
				text += fmt.Sprintf("; container %s %s %s %s, %d restarts", c.Name, c.State, c.Reason, c.Message, c.RestartCount)
			}
			for _, c := range p.Status.ContainerStatuses {
				if last := c.LastTerminationState.Terminated; last != nil {
					text += fmt.Sprintf("; container %s ended before with code %d, %s %s", c.Name, last.ExitCode, last.Reason, last.Message)
				}
			}
			if w := e.Worker; w != nil {
				text += fmt.Sprintf("; worker %s waits for %s, last error %q", w.State, w.WaitingFor, w.LastError)
			}
			if e.Held != "" {
				text += "; held: " + e.Held
			}
		}
		if all := n.Events(pod); len(all) > 0 {
			text += "; last event: " + all[len(all)-1]
		}
		for _, problem := range n.engine.Problems() {
			text += "; problem: " + problem.String()
		}
		return text
	})
}

type unmet func() string

func (u unmet) Error() string { return u() }
