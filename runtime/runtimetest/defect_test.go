package runtimetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/flawtest"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/fake/faketest"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// defect is something wrong with a runtime and the case that must notice.
type defect struct {
	name   string
	caught string
	make   func(f *fake.Runtime) cri.RuntimeService
}

// broken is a fake with some calls replaced.
type broken struct {
	*fake.Runtime
	status   func(*runtimeapi.ContainerStatus)
	sandbox  func(*runtimeapi.PodSandboxStatus)
	list     func([]*runtimeapi.Container) []*runtimeapi.Container
	filter   func(*runtimeapi.ContainerFilter)
	create   func(*runtimeapi.ContainerConfig)
	grace    func(int64) int64
	stopCtx  func(context.Context) context.Context
	exec     func([]byte, []byte, error) ([]byte, []byte, error)
	remove   func(known bool, err error) error
	event    func(*runtimeapi.ContainerEventResponse)
	starting func(context.Context, *fake.Runtime, string)
	answers  func(*runtimeapi.ContainerStatusResponse) *runtimeapi.ContainerStatusResponse
}

func (b *broken) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	r, err := b.Runtime.ContainerStatus(ctx, id, verbose)
	if err == nil && b.status != nil {
		b.status(r.GetStatus())
	}
	if err == nil && b.answers != nil {
		r = b.answers(r)
	}
	return r, err
}

func (b *broken) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r, err := b.Runtime.PodSandboxStatus(ctx, id, verbose)
	if err == nil && b.sandbox != nil {
		b.sandbox(r.GetStatus())
	}
	return r, err
}

func (b *broken) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if b.filter != nil && filter != nil {
		b.filter(filter)
	}
	list, err := b.Runtime.ListContainers(ctx, filter)
	if b.list != nil {
		list = b.list(list)
	}
	return list, err
}

func (b *broken) CreateContainer(ctx context.Context, id string, config *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	if b.create != nil {
		b.create(config)
	}
	return b.Runtime.CreateContainer(ctx, id, config, sandbox)
}

func (b *broken) StartContainer(ctx context.Context, id string) error {
	err := b.Runtime.StartContainer(ctx, id)
	if b.starting != nil {
		b.starting(ctx, b.Runtime, id)
	}
	return err
}

func (b *broken) StopContainer(ctx context.Context, id string, timeout int64) error {
	if b.stopCtx != nil {
		ctx = b.stopCtx(ctx)
	}
	if b.grace != nil {
		timeout = b.grace(timeout)
	}
	return b.Runtime.StopContainer(ctx, id, timeout)
}

func (b *broken) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, error) {
	stdout, stderr, err := b.Runtime.ExecSync(ctx, id, cmd, timeout)
	if b.exec != nil {
		return b.exec(stdout, stderr, err)
	}
	return stdout, stderr, err
}

func (b *broken) RemoveContainer(ctx context.Context, id string) error {
	_, known := b.Runtime.ContainerStatus(ctx, id, false)
	err := b.Runtime.RemoveContainer(ctx, id)
	if b.remove != nil {
		return b.remove(known == nil, err)
	}
	return err
}

func (b *broken) GetContainerEvents(ctx context.Context, ch chan *runtimeapi.ContainerEventResponse, up func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	if b.event != nil {
		b.OnEvent(func(e fake.Event) fake.Delivery { b.event(e.Response); return fake.Delivery{} })
	}
	return b.Runtime.GetContainerEvents(ctx, ch, up)
}

// as makes a defect of changes to a broken fake.
func as(change func(*broken)) func(*fake.Runtime) cri.RuntimeService {
	return func(f *fake.Runtime) cri.RuntimeService {
		b := &broken{Runtime: f}
		change(b)
		return b
	}
}

// defects are mistakes real runtimes and adapters have made, or may well make.
func defects() []defect {
	return []defect{
		{"exit code lost", "container/exit codes arrive", as(func(b *broken) {
			b.status = func(s *runtimeapi.ContainerStatus) { s.ExitCode = 0 }
		})},
		{"annotation lost", "container/labels and annotations are kept verbatim", as(func(b *broken) {
			b.status = func(s *runtimeapi.ContainerStatus) { delete(s.Annotations, "example.com/empty") }
		})},
		{"annotations missing in lists", "container/labels and annotations are kept verbatim", as(func(b *broken) {
			b.list = func(list []*runtimeapi.Container) []*runtimeapi.Container {
				for _, c := range list {
					c.Annotations = nil
				}
				return list
			}
		})},
		{"label lost", "container/labels and annotations are kept verbatim", as(func(b *broken) {
			b.status = func(s *runtimeapi.ContainerStatus) { delete(s.Labels, "empty") }
		})},
		{"a second container of a taken name", "container/a name and attempt exist once", as(func(b *broken) {
			b.create = func(c *runtimeapi.ContainerConfig) { c.Metadata.Attempt++ }
		})},
		{"attempt lost", "container/restart counts are kept", as(func(b *broken) {
			b.status = func(s *runtimeapi.ContainerStatus) { s.Metadata.Attempt = 0 }
		})},
		{"sandbox attempt lost", "sandbox/metadata and attempt are kept", as(func(b *broken) {
			b.sandbox = func(s *runtimeapi.PodSandboxStatus) { s.Metadata.Attempt = 0 }
		})},
		{"finish time in seconds", "container/times are ordered", as(func(b *broken) {
			b.status = func(s *runtimeapi.ContainerStatus) { s.FinishedAt /= int64(time.Second) }
		})},
		{"state filter ignored", "container/list filters select", as(func(b *broken) {
			b.filter = func(f *runtimeapi.ContainerFilter) { f.State = nil }
		})},
		{"a list of the past", "container/created, running, exited, gone", as(func(b *broken) {
			states := map[string]runtimeapi.ContainerState{}
			b.list = func(list []*runtimeapi.Container) []*runtimeapi.Container {
				var old []*runtimeapi.Container
				for _, c := range list {
					if _, listed := states[c.GetId()]; !listed {
						states[c.GetId()] = c.GetState()
					}
					old = append(old, &runtimeapi.Container{Id: c.GetId(), State: states[c.GetId()]})
				}
				return old
			}
		})},
		{"label filter ignored", "container/list filters select", as(func(b *broken) {
			b.filter = func(f *runtimeapi.ContainerFilter) { f.LabelSelector = nil }
		})},
		{"listed twice", "concurrent/lists stay whole while things change", as(func(b *broken) {
			b.list = func(list []*runtimeapi.Container) []*runtimeapi.Container { return append(list, list...) }
		})},
		{"environment lost", "container/command, args, env and working dir reach the process", as(func(b *broken) {
			b.create = func(c *runtimeapi.ContainerConfig) { c.Envs = nil }
		})},
		{"working dir lost in commands", "exec/the container's environment is seen", as(func(b *broken) {
			b.create = func(c *runtimeapi.ContainerConfig) { c.WorkingDir = "" }
		})},
		{"no SIGTERM", "stop/SIGTERM comes first", as(func(b *broken) {
			b.grace = func(int64) int64 { return 0 }
		})},
		{"no SIGKILL", "stop/SIGKILL comes after the grace period", as(func(b *broken) {
			b.grace = func(int64) int64 { return 1 << 20 }
		})},
		{"zero grace is a default", "stop/no grace is SIGKILL", as(func(b *broken) {
			b.grace = func(g int64) int64 {
				if g == 0 {
					return 1 << 20
				}
				return g
			}
		})},
		{"stop ignores its context", "stop/a cancelled stop returns and can be repeated", as(func(b *broken) {
			b.stopCtx = context.WithoutCancel
		})},
		{"exit code of commands swallowed", "exec/an exit code is an ExitStatus error", as(func(b *broken) {
			b.exec = func(stdout, stderr []byte, err error) ([]byte, []byte, error) {
				if exit := (*runtime.ExitError)(nil); errors.As(err, &exit) {
					err = nil
				}
				return stdout, stderr, err
			}
		})},
		{"exit code without a type", "exec/an exit code is an ExitStatus error", as(func(b *broken) {
			b.exec = func(stdout, stderr []byte, err error) ([]byte, []byte, error) {
				if err != nil {
					err = errors.New(err.Error())
				}
				return stdout, stderr, err
			}
		})},
		{"timeout looks like a failure", "exec/a run over the timeout is a deadline error", as(func(b *broken) {
			b.exec = func(stdout, stderr []byte, err error) ([]byte, []byte, error) {
				if cri.Class(err) == runtime.ErrDeadline {
					err = &runtime.ExitError{Code: 137}
				}
				return stdout, stderr, err
			}
		})},
		{"output of failed commands lost", "exec/an exit code is an ExitStatus error", as(func(b *broken) {
			b.exec = func(stdout, stderr []byte, err error) ([]byte, []byte, error) {
				if err != nil {
					stdout = nil
				}
				return stdout, stderr, err
			}
		})},
		{"second removal fails", "container/removal is idempotent", as(func(b *broken) {
			b.remove = func(known bool, err error) error {
				if !known {
					return status.Error(codes.NotFound, "no such container")
				}
				return err
			}
		})},
		{"event time in seconds", "event/a container's life is told in order", as(func(b *broken) {
			b.event = func(r *runtimeapi.ContainerEventResponse) { r.CreatedAt /= int64(time.Second) }
		})},
		{"container dies with the context of its start", "container/it outlives the context that started it", as(func(b *broken) {
			b.starting = func(ctx context.Context, f *fake.Runtime, id string) {
				context.AfterFunc(ctx, func() { _ = f.StopContainer(context.WithoutCancel(ctx), id, 0) })
			}
		})},
		{"hands out its own labels", "container/answers are the caller's", as(func(b *broken) {
			own := map[string]map[string]string{}
			b.answers = func(r *runtimeapi.ContainerStatusResponse) *runtimeapi.ContainerStatusResponse {
				if own[r.GetStatus().GetId()] == nil {
					own[r.GetStatus().GetId()] = r.GetStatus().GetLabels()
				}
				r.Status.Labels = own[r.GetStatus().GetId()]
				return r
			}
		})},
		{"writes no logs", "log/reopening follows a rename", func(*fake.Runtime) cri.RuntimeService {
			options := faketest.Options()
			options.WriteLogs = false
			return fake.New(options)
		}},
	}
}

// kit is the suite, run on the fake with the defects.
func kit() flawtest.Kit {
	k := flawtest.Kit{Caught: map[string]string{}, Says: map[string]string{
		"hands out its own labels": "follows changes of its answers: labels[",
		"writes no logs":           "2s after its start the container has no log file at ",
	}}
	made := map[string]func(*fake.Runtime) cri.RuntimeService{}
	for _, d := range defects() {
		k.Caught[d.name], made[d.name] = d.caught, d.make
	}
	for _, c := range runtimetest.Cases() {
		k.Cases = append(k.Cases, flawtest.Case{Name: c.Name, Run: func(t *testing.T, defect string) {
			synctest.Test(t, func(t *testing.T) {
				c.Run(t, func(*testing.T) runtimetest.Subject {
					f := fake.New(faketest.Options())
					return faketest.Subject(made[defect](f), f)
				})
			})
		}})
	}
	return k
}

func TestFlawed(t *testing.T)         { kit().Flawed(t) }
func TestFlawsAreCaught(t *testing.T) { kit().FlawsAreCaught(t) }

// The fake without a defect passes the same cases, so the defect is the reason.
func TestNoDefectPasses(t *testing.T) {
	wanted := map[string]bool{}
	for _, d := range defects() {
		wanted[d.caught] = true
	}
	for _, c := range runtimetest.Cases() {
		if !wanted[c.Name] {
			continue
		}
		delete(wanted, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.Run(t, func(*testing.T) runtimetest.Subject {
					f := fake.New(faketest.Options())
					return faketest.Subject(as(func(*broken) {})(f), f)
				})
			})
		})
	}
	for name := range wanted {
		t.Errorf("no case is called %q", name)
	}
}
