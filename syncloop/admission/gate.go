package admission

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/podinfo"
)

// Verdicts keeps verdicts across restarts (AD5). One goroutine at a time calls it,
// and it must not block.
type Verdicts interface {
	// Verdict returns the earlier verdict on a pod. known is false if there is none, or if it is
	// about the pod of another source; the source does not matter if the pod has only a UID. It is also false for a
	// refusal after which the pod is judged again; the same one is not reported a second time.
	// An error means that the verdict cannot be looked up yet; the pod waits.
	Verdict(pod *v1.Pod) (v Verdict, known bool, err error)
	// Remember stores a verdict before it takes effect. The implementation makes sure
	// that it is on disk before the pod is set up or its refusal is published.
	Remember(pod *v1.Pod, v Verdict) error
}

// Options configures a [Gate]. The zero value admits every pod.
type Options struct {
	// Handlers are asked in this order (AD2).
	Handlers []Handler
	// Verdicts keeps verdicts. If nil, no verdict is remembered, and a pod is judged
	// whenever it is new to the process.
	Verdicts Verdicts
	// Active returns the pod with the resources it was granted if it has a place on
	// the node, and false if it has none (AD4). If nil, a pod has a place until its
	// own phase is terminal.
	Active func(pod *v1.Pod) (*v1.Pod, bool)
	// Rejected publishes the status of a refused pod, including one that was refused
	// before a restart. It must not block. Optional.
	Rejected func(pod *v1.Pod, v Verdict)

	// Recorder gets a Warning per refusal. Nil drops it.
	Recorder podinfo.EventRecorder
	// Logger is silent if zero.
	Logger logr.Logger
	// Meter counts refusals. Nil: they are not counted.
	Meter metric.Meter
}

// Gate judges each pod once in its life. One goroutine at a time may call Admit;
// any may call RefuseLate.
type Gate struct {
	options    Options
	rejections metric.Int64Counter
}

// NewGate returns a gate, or an error about the options.
func NewGate(options Options) (*Gate, error) {
	for i, h := range options.Handlers {
		if h == nil {
			return nil, fmt.Errorf("admission: handler %d is nil", i)
		}
	}
	set := instrument.New(options.Meter)
	rejections := set.Counter("kubelet_admission_rejections_total", "Pods refused at admission, by reason.", instrument.By("reason",
		"AppArmor", "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "NodeAffinity", "TaintToleration", "InvalidNodeInfo",
		"InitContainerRestartPolicyForbidden", "SupplementalGroupsPolicyNotSupported", "PodLevelResourcesNotSupported",
		"UnexpectedAdmissionError", "UnknownReason", "UnexpectedPredicateFailureType", "Evicted", "TopologyAffinityError",
		"VolumeAttachmentLimitExceeded", "OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods", "OutOfExtendedResources",
		"NodePorts", "SysctlForbidden", "NodeShutdown", "PodSecurity", "SourcePolicy", "NodeName", "Other"))
	if err := set.Err(); err != nil {
		return nil, fmt.Errorf("admission: metrics: %w", err)
	}
	return &Gate{options: options, rejections: rejections}, nil
}

// Admit reports whether a pod may be handed to its worker. all yields the pods of
// the node; the candidate among them does not count (AD1). An earlier verdict holds
// (AD5). An error means that there is no verdict yet: ask again.
func (g *Gate) Admit(ctx context.Context, pod *v1.Pod, all iter.Seq[*v1.Pod]) (bool, error) {
	ended := podinfo.ShowsEnd(pod)
	var earlier Verdict
	if m := g.options.Verdicts; m != nil {
		v, known, err := m.Verdict(pod)
		earlier = v
		if err != nil && !ended {
			return false, err
		}
		if known && err == nil {
			if !v.Admitted() && g.options.Rejected != nil {
				g.options.Rejected(pod, v)
			}
			return v.Admitted(), nil
		}
	}
	if ended {
		return true, nil // it is never set up, so it needs no verdict (PS9)
	}
	v, err := Judge(g.options.Handlers, Request{Pod: pod, Others: g.active(pod.UID, all)})
	if err != nil {
		return false, err
	}
	if m := g.options.Verdicts; m != nil {
		if err := m.Remember(pod, v); err != nil {
			return false, fmt.Errorf("the verdict cannot be remembered: %w", err)
		}
	}
	if v.Admitted() {
		return true, nil
	}
	if g.options.Rejected != nil {
		g.options.Rejected(pod, v)
	}
	if v != earlier {
		g.report(ctx, pod, v)
	}
	return false, nil
}

// Remembered reports whether a pod was admitted before.
func (g *Gate) Remembered(uid types.UID) bool {
	if g.options.Verdicts == nil {
		return false
	}
	v, known, err := g.options.Verdicts.Verdict(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	return err == nil && known && v.Admitted()
}

// RefuseLate reports and counts a refusal that comes from setup (AD8). The caller
// publishes the status, which ends the pod for good, because the caller knows what
// exists of the pod. The stored verdict stays: the pod was admitted once, and
// everything that exists of it must go.
func (g *Gate) RefuseLate(ctx context.Context, pod *v1.Pod, v Verdict) { g.report(ctx, pod, v) }

// report publishes a refusal as log line, event and metric (AD3).
func (g *Gate) report(ctx context.Context, pod *v1.Pod, v Verdict) {
	g.options.Logger.Info("Pod refused", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID, "reason", v.Reason, "message", v.Message)
	if g.options.Recorder != nil {
		g.options.Recorder.Eventf(pod, v1.EventTypeWarning, v.Reason, "%s", v.Message)
	}
	g.rejections.Add(ctx, 1, instrument.Labels("reason", metricReason(v.Reason)))
}

// active yields the pods that count, without the candidate.
func (g *Gate) active(candidate types.UID, all iter.Seq[*v1.Pod]) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for pod := range all {
			if pod.UID == candidate {
				continue
			}
			if g.options.Active != nil {
				granted, ok := g.options.Active(pod)
				if !ok {
					continue
				}
				pod = granted
			} else if podinfo.Terminal(pod.Status.Phase) {
				continue
			}
			if !yield(pod) {
				return
			}
		}
	}
}
