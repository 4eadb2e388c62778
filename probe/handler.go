package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/outbound"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// maxOutput is how much of a command's output is kept (5.2).
const maxOutput = 10240

// userAgent of http and grpc probes (5.3, 5.9).
const userAgent = "kube-probe/" + podinfo.KubernetesMinor

// Outcome is the result of one attempt.
type Outcome struct {
	// Result is Unknown, Success or Failure. Unknown counts as a failure without an
	// event (4.1).
	Result Result
	// Warning: a success is announced with an event.
	Warning bool
	// Output is for events and explanations. A failure's output is shown in events, so it must not
	// hold secrets.
	Output string
}

// Target is what a probe is aimed at. What it points to is shared and read-only.
type Target struct {
	// Pod as it is desired now, and its container.
	Pod       *v1.Pod
	Container *v1.Container
	Kind      Kind
	Probe     *v1.Probe
	ID        runtime.ContainerID
	// PodIP is the pod's primary address, or the node's for a pod on the host network; empty if
	// there is none yet.
	PodIP string
	// Timeout of the attempt. The context ends with it, for exec 0.5 s later.
	Timeout time.Duration
}

// Handler executes probes of some type. Probe is called from many goroutines. It must return soon
// after its context ends; a call that does not loses its slot 1 s after the timeout. An error means
// that the probe could not be executed and says nothing about the container: the probe is retried,
// three attempts in all (4.1). A panic is an error that is not retried.
type Handler interface {
	Probe(ctx context.Context, t Target) (Outcome, error)
}

// errNoHandler is the error of 5.12.
var errNoHandler = errors.New("the probe has none of exec, httpGet, tcpSocket and grpc")

// handler returns the package's own handler for a probe.
func (m *Manager) handler(p *v1.Probe) (Handler, error) {
	switch {
	case p.Exec != nil && m.options.Runtime != nil:
		return execHandler{m.options.Runtime}, nil
	case p.Exec != nil:
		return nil, errors.New("exec probes are not possible here: no runtime is configured for them")
	case p.HTTPGet != nil:
		return httpHandler{dialer: m.dialer, http2: m.options.HTTP2}, nil
	case p.TCPSocket != nil:
		return tcpHandler{dialer: m.dialer}, nil
	case p.GRPC != nil:
		return grpcHandler{dialer: m.dialer, tls: m.options.GRPCTLS}, nil
	}
	return nil, errNoHandler
}

// target collects what a handler needs. The first attempt uses what the preceding look showed, so
// that container and address belong together; later attempts use the pod as it is now.
func (m *Manager) target(r *run) (Target, error) {
	w, view := r.worker, r.view
	r.view = View{}
	if view.Pod == nil {
		var ok bool
		if view, ok = m.options.Pods.View(w.pod.uid); !ok {
			return Target{}, errors.New("the pod is gone")
		}
	}
	c := specOf(view.Pod, w.name)
	if c == nil {
		return Target{}, fmt.Errorf("the pod has no container %q", w.name)
	}
	return Target{
		Pod: view.Pod, Container: c, Kind: w.kind, Probe: r.probe, ID: r.id,
		PodIP: view.Status.PodIP, Timeout: r.timeout,
	}, nil
}

// noAddress is the output of edge case 22.
const noAddress = "the pod has no address yet"

// failed returns a failure with this text.
func failed(format string, args ...any) Outcome {
	return Outcome{Result: Failure, Output: fmt.Sprintf(format, args...)}
}

// call describes what a probe's connection is for; host is what its manifest names (11).
func (t *Target) call(host string) outbound.Call {
	return outbound.Call{UID: t.Pod.UID, Host: outbound.Named(host, t.PodIP), HostNetwork: t.Pod.Spec.HostNetwork}
}

// connect dials a probe's address. A connection lingers for 1 s when it is closed, so
// that TIME_WAIT does not pile up (5.4).
func connect(ctx context.Context, dialer *outbound.Dialer, c outbound.Call, network, address string) (net.Conn, error) {
	conn, err := dialer.Dial(ctx, c, network, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.SetLinger(1); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// ownFault reports whether the node could not begin a connection, for want of descriptors, memory or
// local ports. That says nothing of the container (5.13).
func ownFault(err error) bool {
	return durable.Scarce(err) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// cut shortens a text to at most limit bytes without splitting a character. The result does not
// keep the long text alive.
func cut(text string, limit int) string {
	if len(text) > limit {
		text = strings.Clone(podinfo.Cut(text, limit))
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
