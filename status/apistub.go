package status

import (
	"context"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Generate ...
func Generate(in Input) v1.PodStatus { return v1.PodStatus{} }

// QOSClass ...
func QOSClass(pod *v1.Pod) v1.PodQOSClass { return "" }

// Rejected ...
func Rejected(in Input, reason, message string) v1.PodStatus { return v1.PodStatus{} }

// SetPodStatus ...
func (m *Manager) SetPodStatus(pod *v1.Pod, status v1.PodStatus) error { return nil }

// SetContainerReadiness ...
func (m *Manager) SetContainerReadiness(uid types.UID, id runtime.ContainerID, ready bool) {}

// SetContainerStartup ...
func (m *Manager) SetContainerStartup(uid types.UID, id runtime.ContainerID, started bool) {}

// TerminatePod ...
func (m *Manager) TerminatePod(pod *v1.Pod) error { return nil }

// RemoveOrphanedStatuses ...
func (m *Manager) RemoveOrphanedStatuses(known map[types.UID]struct{}) {}

// ObservePod ...
func (m *Manager) ObservePod(pod *v1.Pod) {}

// Flush ...
func (m *Manager) Flush(ctx context.Context) error { return nil }

type metrics struct{}

func newMetrics(metric.Meter) metrics { return metrics{} }

func (m *Manager) translate(uid types.UID) types.UID { return uid }

type sender struct{}

func newSender(*Manager, StatusSink, string) *sender { return &sender{} }
func (*sender) run(context.Context)                 {}
