package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/podinfo"
)

// Runtime is the part of the CRI that says what the runtime is and can do.
type Runtime interface {
	Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error)
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

// Images is the part of the CRI that lists images.
type Images interface {
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
}

// Options configures [New]. Name and Client are required.
type Options struct {
	// Name is the name of the Node: a DNS subdomain and, for an API server with the admission
	// plugin NodeRestriction, the name in the agent's certificate (system:node:NAME).
	Name string
	// Client talks to the API server.
	Client kubernetes.Interface
	// Leases renews the lease. A client with its own rate limiter keeps the node alive while other
	// calls use up that of Client (KT7). Nil means Client.
	Leases coordinationclient.LeasesGetter
	// Reconnect closes the connections of the clients, so that the next call opens a new one. It is
	// called after a call without an answer (KN9), from several goroutines. Nil means that nothing is
	// done.
	Reconnect func()

	// Labels are set at registration, even on an existing Node; the labels for name, operating
	// system and architecture are always set. Other labels of a Node stay.
	Labels map[string]string
	// Taints are set on a Node that is created. An existing one keeps its own.
	Taints []v1.Taint

	// Addresses returns the node's addresses. It is called at least every 10 s while
	// [Registrar.Run] runs, and must be quick. No address means that none is known now: the Node keeps those that
	// it has. Nil, and a Node without any, means only the host name (KN11).
	Addresses func() []v1.NodeAddress
	// RootDir is the engine's folder. The size of its file system is the node's capacity of ephemeral
	// storage, without which no pod that requests some is scheduled here. Empty means that none is shown.
	RootDir string
	// MaxPods is how many pods the node accepts. 0 means 110.
	MaxPods int
	// Capacity and Allocatable return what the node has, and how much of it pods together may use;
	// they are called like Addresses. Nil Capacity means this machine's CPU, memory and huge pages,
	// the disk of RootDir, and MaxPods. Nil Allocatable means the capacity less Reserved and the
	// hard limits of Eviction (KN13). If both are nil, extended resources that somebody else advertises
	// in the Node's capacity are kept (KN12).
	Capacity, Allocatable func() v1.ResourceList
	// Reserved is what the system and the agent need. It is subtracted, but not enforced.
	Reserved v1.ResourceList
	// Eviction is the list of limits at which pods are evicted.
	Eviction []eviction.Threshold
	// Runtime and Images tell what the runtime is and has. Nil means unknown.
	Runtime Runtime
	Images  Images
	// Info overrides what is detected about the machine; its empty fields are detected.
	// KubeletVersion defaults to the version of Kubernetes whose API this module is built for,
	// marked as ours.
	Info v1.NodeSystemInfo
	// Port is the port of the agent's own HTTPS server. 0 means none.
	Port int32

	// Leave closes [Registrar.Gone] after the Node was deleted, instead of registering it again (KN7). The embedder
	// decides what to do then, such as draining the engine or ending the program. No container restarts either way.
	Leave bool
	// Skew compares the clocks of this machine and of the API server. Its Wrap must be in the
	// transport of Client and Leases. Nil means no comparison, and that a busy API server can be
	// taken for one that does not answer.
	Skew *Skew

	// Clock is the agent's time. Nil means the real clock.
	Clock clock.WithTicker
	// Logger is silent if zero.
	Logger logr.Logger
	// Events receives events about the node. Nil drops them.
	Events podinfo.EventRecorder
	// Meter makes the instruments. Nil means no metrics.
	Meter metric.Meter
}

// version is what nodes show as their kubelet's version.
const version = "v" + podinfo.KubernetesMinor + ".2+podwright"

func (o *Options) complete() error {
	var problems []error
	if o.Name == "" {
		problems = append(problems, errors.New("no Name: that of the Node is required"))
	} else if bad := validation.IsDNS1123Subdomain(o.Name); len(bad) > 0 {
		problems = append(problems, fmt.Errorf("the Name %q is no name of a Node: %s", o.Name, strings.Join(bad, "; ")))
	}
	if o.Client == nil {
		problems = append(problems, errors.New("no Client: a client of the API server is required"))
	} else if o.Leases == nil {
		o.Leases = o.Client.CoordinationV1()
	}
	problems = append(problems, o.checkReserved()...)
	if o.Reconnect == nil {
		o.Reconnect = func() {}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Events == nil {
		o.Events = podinfo.DiscardEvents{}
	}
	return errors.Join(problems...)
}
