package programs_test

import (
	"context"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime"
)

// processes runs a pod as one plain process, the command of its first container, without a
// container runtime. A process that ends is started again unless its pod never restarts.
type processes struct {
	podworkers.PodSyncerFuncs // what it does not need
	started                   func(*child)
	ended                     func(types.UID) bool

	mu  sync.Mutex
	all map[types.UID]*child
}

type child struct {
	cmd  *exec.Cmd
	life context.Context // ends with the process
}

func (p *processes) SyncPod(_ context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.all[pod.UID]; c != nil {
		over := c.life.Err() != nil
		if !over || pod.Spec.RestartPolicy == v1.RestartPolicyNever {
			return podworkers.SyncResult{Terminal: over}, nil
		}
	}
	command := pod.Spec.Containers[0].Command
	life, end := context.WithCancel(context.Background())
	c := &child{cmd: exec.Command(command[0], command[1:]...), life: life}
	if err := c.cmd.Start(); err != nil {
		end()
		return podworkers.SyncResult{}, err // tried again after a back-off
	}
	p.all[pod.UID] = c
	p.started(c)
	go func() {
		_ = c.cmd.Wait() // how it ended is of no interest here
		end()
		p.ended(pod.UID)
	}()
	return podworkers.SyncResult{Acted: true}, nil
}

// SyncTerminatingPod asks the process to end, and kills it when its grace is over.
func (p *processes) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, _ *runtime.PodStatus, grace *int64, _ podworkers.PodStatusFunc) error {
	p.mu.Lock()
	c := p.all[pod.UID]
	p.mu.Unlock()
	if c == nil {
		return nil
	}
	if grace == nil {
		grace = pod.Spec.TerminationGracePeriodSeconds // each pod of this program has one
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	over := time.NewTimer(time.Duration(*grace) * time.Second)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx) // called again, perhaps with a shorter grace
	case <-over.C:
		_ = c.cmd.Process.Kill()
		<-c.life.Done()
	case <-c.life.Done():
	}
	return nil
}

// command is a pod of one process.
func command(name, script string, restart v1.RestartPolicy) *v1.Pod {
	pod, grace := podwrighttest.Pod(name), int64(1)
	pod.Spec.TerminationGracePeriodSeconds, pod.Spec.RestartPolicy = &grace, restart
	pod.Spec.Containers[0].Command = []string{"sh", "-c", script}
	return pod
}

// TestProcesses: a process that dies runs again, a job does not; one that hangs is killed.
func TestProcesses(t *testing.T) {
	children := make(chan *child, 8)
	p := &processes{all: map[types.UID]*child{}, started: func(c *child) { children <- c }}
	workers := podworkers.New(p, podworkers.Options{})
	p.ended = workers.Wake // without it an end would be seen with the next resync
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- workers.Run(ctx) }()

	web, job := command("web", "exec sleep 1000", v1.RestartPolicyAlways), command("job", "exit 3", v1.RestartPolicyNever)
	workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: web})
	_ = (<-children).cmd.Process.Kill()
	again := <-children
	_ = again.cmd.Process.Signal(syscall.SIGSTOP) // so it hears no SIGTERM
	workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: job})
	if err := workers.WaitFinished(ctx, job.UID); err != nil || (<-children).life.Err() == nil {
		t.Errorf("the job has not ended, %v", err)
	}
	if err := workers.KillPod(ctx, web, podworkers.KillOptions{}); err != nil || again.life.Err() == nil || len(children) > 0 {
		t.Errorf("%v; %d more processes were started", err, len(children))
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
