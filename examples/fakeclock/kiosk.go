// Package fakeclock shows how to test an agent that embeds Podwright: the agent is
// ordinary code on the real clock, and its test runs it in a testing/synctest
// bubble, where every clock is a fake one, on the fake runtime. Ten minutes of
// crash-loop back-off pass in milliseconds.
package fakeclock

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// Kiosk is a small agent: it keeps one pod running and calls for help when its
// containers restart too often.
type Kiosk struct {
	engine *podwright.Engine
	pods   *source.Channel
	// alarmed is used by one goroutine at a time: statuses of one pod arrive in order.
	alarmed bool
}

// NewKiosk makes an agent on any runtime. alarm is called once, when the pod's
// containers have restarted limit times.
func NewKiosk(rt cri.RuntimeService, images cri.ImageService, rootDir string, limit int32, alarm func(restarts int32)) (*Kiosk, error) {
	k := &Kiosk{pods: source.NewChannel(source.ChannelOptions{NodeName: "kiosk"})}
	var err error
	k.engine, err = podwright.New(podwright.Config{
		Runtime: rt, Images: images, RootDir: rootDir, Node: podwright.Node{Name: "kiosk"},
		Sources: []syncloop.Source{k.pods},
		Observe: podwright.Observe{Sinks: []status.StatusSink{status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			if n := restarts(u.Status); n >= limit && !k.alarmed {
				k.alarmed = true
				alarm(n)
			}
			return status.Stored, nil
		})}},
	})
	return k, err
}

// Run runs the pod until ctx ends.
func (k *Kiosk) Run(ctx context.Context, pod *v1.Pod) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- k.engine.Run(ctx) }()
	err := k.pods.Set(ctx, []*v1.Pod{pod})
	if err != nil {
		cancel()
	}
	return errors.Join(err, <-ended)
}

func restarts(s *v1.PodStatus) int32 {
	var n int32
	for _, c := range s.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}
