package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/tracing"
	"github.com/podwright/podwright/internal/tracing/tracingtest"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// bench is a syncer whose steps a test chooses, and what is traced of them.
type bench struct {
	podworkers.PodSyncerFuncs
	traces   *tracing.Traces
	syncer   tracing.Syncer
	provider *tracingtest.Provider
	clock    *clocktesting.FakeClock
	status   v1.PodStatus
	heard    time.Time
	// runtime and images answer calls, with err.
	runtime cri.RuntimeService
	images  cri.ImageService
	err     error
}

type answers struct {
	cri.RuntimeService
	cri.ImageService
	b *bench
}

func (a answers) CreateContainer(context.Context, string, *runtimeapi.ContainerConfig, *runtimeapi.PodSandboxConfig) (string, error) {
	a.b.clock.Step(time.Second)
	return "c1", a.b.err
}
func (a answers) StopContainer(context.Context, string, int64) error { return a.b.err }
func (a answers) PullImage(context.Context, *runtimeapi.ImageSpec, *runtimeapi.AuthConfig, *runtimeapi.PodSandboxConfig) (string, error) {
	return "ref", a.b.err
}

// StopUnseen implements [podworkers.UnseenStopper].
func (b *bench) StopUnseen(context.Context, *v1.Pod, *int64) error { return b.err }

func newBench() *bench {
	b := &bench{provider: &tracingtest.Provider{}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	b.traces = tracing.New(tracing.Options{
		Provider: b.provider, Clock: b.clock,
		Status: func(types.UID) (v1.PodStatus, bool) { return b.status, b.status.Phase != "" },
		Explain: func(types.UID) (podworkers.Explanation, bool) {
			return podworkers.Explanation{Transitions: []podworkers.Transition{{At: b.heard}}}, !b.heard.IsZero()
		},
	})
	b.heard = b.clock.Now()
	b.syncer = b.traces.Syncer(b)
	b.runtime, b.images = b.traces.Runtime(answers{b: b}), b.traces.Images(answers{b: b})
	return b
}

func (b *bench) sync(t *testing.T, pod *v1.Pod) {
	t.Helper()
	_, _ = b.syncer.SyncPod(t.Context(), podworkers.Create, pod, nil, nil)
}

func (b *bench) becomes(phase v1.PodPhase, ready v1.ConditionStatus) {
	b.status = v1.PodStatus{Phase: phase, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready}}}
}

// tree shows spans as lines, children below their parents.
func (b *bench) tree() []string {
	var lines []string
	var add func(parent uint64, indent string)
	spans := b.provider.Spans()
	add = func(parent uint64, indent string) {
		for _, s := range spans {
			if s.Parent != parent {
				continue
			}
			line := fmt.Sprintf("%s%s +%.0fs", indent, s.Name, s.Start.Sub(time.Unix(1000, 0)).Seconds())
			if s.End.IsZero() {
				line += " open"
			} else {
				line += fmt.Sprintf(" %.0fs", s.End.Sub(s.Start).Seconds())
			}
			if o := s.Attributes["podwright.outcome"]; o != "" {
				line += " " + o
			}
			if s.Failed != "" {
				line += " failed: " + s.Failed
			}
			lines = append(lines, line)
			add(s.ID, indent+"  ")
		}
	}
	add(0, "")
	return lines
}

func podOf(uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID(uid)}}
}

// TestLifeOfAPod: TR1, TR2. A start lasts from when the worker got the pod until that is ready, a stop until
// everything is released. Steps are below them, and calls below steps; steps between the two are separate traces.
func TestLifeOfAPod(t *testing.T) {
	b := newBench()
	b.clock.Step(2 * time.Second)
	b.Sync = func(ctx context.Context, _ podworkers.UpdateType, _, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
		_, _ = b.images.PullImage(ctx, &runtimeapi.ImageSpec{Image: "web:1"}, nil, nil)
		_, err := b.runtime.CreateContainer(ctx, "s1", &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "main"}}, nil)
		return podworkers.SyncResult{}, err
	}
	b.becomes(v1.PodRunning, v1.ConditionFalse)
	b.sync(t, podOf("u1"))
	b.becomes(v1.PodRunning, v1.ConditionTrue)
	b.Sync = nil
	b.clock.Step(3 * time.Second)
	b.sync(t, podOf("u1"))
	b.sync(t, podOf("u1"))
	b.Terminating = func(ctx context.Context, _ *v1.Pod, _ *runtime.PodStatus, _ *int64, _ podworkers.PodStatusFunc) error {
		return b.runtime.StopContainer(ctx, "c1", 30)
	}
	b.err = fmt.Errorf("stop: %w", runtime.ErrUnavailable)
	_ = b.syncer.SyncTerminatingPod(t.Context(), podOf("u1"), nil, nil, nil)
	b.err = nil
	b.clock.Step(time.Second)
	_ = b.syncer.StopUnseen(t.Context(), podOf("u1"), nil)
	_ = b.syncer.SyncTerminatingPod(t.Context(), podOf("u1"), nil, nil, nil)
	_ = b.syncer.SyncTerminatedPod(t.Context(), podOf("u1"), nil)
	want := []string{
		"pod start +0s 6s Ready",
		"  syncPod +2s 1s",
		"    runtime.v1.ImageService/PullImage +2s 0s",
		"    runtime.v1.RuntimeService/CreateContainer +2s 1s",
		"  syncPod +6s 0s",
		"syncPod +6s 0s",
		"pod stop +6s 1s released",
		"  syncTerminatingPod +6s 0s failed: runtime unavailable",
		"    runtime.v1.RuntimeService/StopContainer +6s 0s failed: runtime unavailable",
		"  stopUnseenPod +7s 0s",
		"  syncTerminatingPod +7s 0s",
		"    runtime.v1.RuntimeService/StopContainer +7s 0s",
		"  syncTerminatedPod +7s 0s",
	}
	if diff := cmp.Diff(want, b.tree()); diff != "" {
		t.Error(diff)
	}
	if first := b.provider.Spans()[0]; !slices.Equal(first.Events, []string{"Running"}) || first.Attributes["k8s.pod.uid"] != "u1" ||
		first.Attributes["k8s.namespace.name"] != "shop" || first.Attributes["k8s.pod.name"] != "web" {
		t.Errorf("the start: %+v", first)
	}
	if n := b.traces.Open(); n != 0 {
		t.Errorf("%d pods are kept after the end of all", n)
	}
}

// TestStartsThatEndOtherwise: TR1. An end of the pod, a stop and the end of the agent end a start too; a pod that is ready
// when the agent first sees it has none.
func TestStartsThatEndOtherwise(t *testing.T) {
	b := newBench()
	b.becomes(v1.PodSucceeded, v1.ConditionFalse)
	b.sync(t, podOf("done before"))
	b.becomes(v1.PodRunning, v1.ConditionTrue)
	b.sync(t, podOf("ready before"))
	b.status = v1.PodStatus{}
	b.sync(t, podOf("stopped"))
	_ = b.syncer.SyncTerminatingPod(t.Context(), podOf("stopped"), nil, nil, nil)
	_ = b.syncer.SyncTerminatingRuntimePod(t.Context(), &runtime.Pod{UID: "left over"})
	b.Sync = func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
		b.becomes(v1.PodFailed, v1.ConditionFalse)
		return podworkers.SyncResult{}, nil
	}
	b.sync(t, podOf("fails"))
	b.Sync, b.status = nil, v1.PodStatus{}
	b.sync(t, podOf("cut off"))
	b.traces.End()
	b.traces.End()
	want := []string{
		"syncPod +0s 0s", "syncPod +0s 0s",
		"pod start +0s 0s stopped before it was ready", "  syncPod +0s 0s",
		"pod stop +0s 0s agent ended", "  syncTerminatingPod +0s 0s",
		"pod stop +0s 0s released", "  syncTerminatingRuntimePod +0s 0s",
		"pod start +0s 0s Failed", "  syncPod +0s 0s",
		"pod start +0s 0s agent ended", "  syncPod +0s 0s",
	}
	if diff := cmp.Diff(want, b.tree()); diff != "" {
		t.Error(diff)
	}
	for _, s := range b.provider.Spans() {
		if s.Ends != 1 {
			t.Errorf("%s ended %d times", s.Name, s.Ends)
		}
	}
}

// TestTraceOfALongStartIsBounded: TR3. A pod that crashes for days does not have one endless trace.
func TestTraceOfALongStartIsBounded(t *testing.T) {
	b := newBench()
	b.becomes(v1.PodRunning, v1.ConditionFalse)
	for range 1000 {
		b.sync(t, podOf("u1"))
	}
	below := 0
	for _, s := range b.provider.Spans() {
		if s.Parent != 0 {
			below++
		}
	}
	if below != 100 {
		t.Errorf("%d steps belong to the start, want 100", below)
	}
}

// TestNoSecretsInSpans: TR4. Nothing of a specification, of credentials or of an error's words is in a span.
func TestNoSecretsInSpans(t *testing.T) {
	b := newBench()
	const secret = "hunter2"
	b.err = errors.New("registry says: " + secret)
	b.Sync = func(ctx context.Context, _ podworkers.UpdateType, _, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
		_, err := b.images.PullImage(ctx, &runtimeapi.ImageSpec{Image: "web:1", Annotations: map[string]string{"a": secret}}, &runtimeapi.AuthConfig{Password: secret}, nil)
		_, err2 := b.runtime.CreateContainer(ctx, "s1", &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Command: []string{secret},
			Envs: []*runtimeapi.KeyValue{{Key: "PASSWORD", Value: []byte(secret)}},
		}, nil)
		return podworkers.SyncResult{}, errors.Join(err, err2)
	}
	pod := podOf("u1")
	pod.Annotations = map[string]string{"a": secret}
	b.sync(t, pod)
	failed := 0
	for _, s := range b.provider.Spans() {
		if text := fmt.Sprintf("%+v", s); strings.Contains(text, secret) {
			t.Errorf("a secret is in %s", text)
		}
		if s.Failed == "error" {
			failed++
		}
	}
	if failed != 3 {
		t.Errorf("%d spans failed, want both calls and the step", failed)
	}
}

// TestNoProviderNoDecorator: TR5. Without a provider everything is as it was handed in.
func TestNoProviderNoDecorator(t *testing.T) {
	var none *tracing.Traces = tracing.New(tracing.Options{})
	b := newBench()
	service := answers{b: b}
	if none != nil || none.Syncer(b) != tracing.Syncer(b) || none.Runtime(service) != cri.RuntimeService(service) || none.Images(service) != cri.ImageService(service) {
		t.Error("something is decorated")
	}
	none.End()
	if _, err := b.runtime.CreateContainer(t.Context(), "s1", nil, nil); err != nil || len(b.provider.Spans()) != 0 {
		t.Errorf("a call outside of a step: %v, spans %v", err, b.tree())
	}
}
