package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/reflection"
)

// Run watches the Node, and looks at the machine and the runtime every 10 s, until ctx ends. It
// returns when everything it started has ended. Call it once.
func (r *Registrar) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { r.watch(ctx) })
	for {
		r.look(ctx)
		if timing.Sleep(ctx, r.options.Clock, lookPeriod) != nil {
			return nil
		}
	}
}

// look reads the runtime, and has the status published if it differs from the last one, or the Node from that.
func (r *Registrar) look(ctx context.Context) {
	r.mu.Lock()
	last := r.runtime
	r.mu.Unlock()
	limited, cancel := timing.WithTimeout(ctx, r.options.Clock, callLimit)
	read := r.readRuntime(limited, last)
	cancel()
	r.mu.Lock()
	r.runtime = read
	r.mu.Unlock()
	r.compareClocks(ctx)
	call := foreign.Call{Kind: problem.Function, Name: "kube/node.Options", Patience: problem.FunctionLimit}
	err := r.calls.Contain(call, func() error {
		now := r.facts()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.published != nil && (!now.equal(r.published) || r.overwritten()) {
			r.signal()
		}
		return nil
	})
	if err != nil {
		r.options.Logger.Error(err, "A function of the options failed; the Node shows what it last said")
	}
}

// compareClocks reports when the clocks begin or cease to differ (KN10). It has no other effect.
func (r *Registrar) compareClocks(ctx context.Context) {
	if r.options.Skew == nil {
		return
	}
	r.ahead.Record(ctx, int64(r.options.Skew.ahead()/time.Second))
	off, changed := r.options.Skew.turned()
	if !changed {
		return
	}
	if off == 0 {
		r.options.Logger.Info("The clock agrees with that of the API server again")
		return
	}
	way := "behind"
	if off < 0 {
		way = "ahead of"
	}
	message := fmt.Sprintf("the clock of this node is %s %s that of the API server: certificates, tokens and leases may be taken for expired", off.Abs().Round(time.Second), way)
	r.options.Logger.Info("The clocks differ", "skew", off)
	r.options.Events.Eventf(podinfo.NodeReference(r.options.Name), v1.EventTypeWarning, "ClockSkew", "%s", message)
}

// watch keeps the store up to date with the Node of the name.
func (r *Registrar) watch(ctx context.Context) {
	select {
	case <-r.first: // NodeRestriction lets an agent read only its own Node
	case <-ctx.Done():
		return
	}
	nodes, only := r.options.Client.CoreV1().Nodes(), fields.OneTermEqualSelector(metav1.ObjectNameField, r.options.Name).String()
	reflection.Reflection{
		Name: "Node " + r.options.Name, Example: &v1.Node{}, Client: r.options.Client,
		List: func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			o.FieldSelector = only
			return nodes.List(ctx, o)
		},
		Watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return nodes.Watch(ctx, o)
		},
		Store: watched{r.store, func() {
			if gone, err := r.confirmGone(ctx); err != nil || gone {
				r.signal() // if it could not be read now, the next status will tell
			}
		}},
		Silence: silence, Clock: r.options.Clock, Logger: r.options.Logger,
	}.Run(ctx)
}

// watched is a store that reports a deleted Node.
type watched struct {
	cache.Store
	gone func()
}

// Delete implements [cache.ReflectorStore].
func (w watched) Delete(object any) error {
	err := w.Store.Delete(object)
	w.gone()
	return err
}

// Replace implements [cache.ReflectorStore].
func (w watched) Replace(objects []any, revision string) error {
	had := len(w.ListKeys())
	err := w.Store.Replace(objects, revision)
	if had > 0 && len(objects) == 0 {
		w.gone()
	}
	return err
}
