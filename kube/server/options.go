package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// Engine is what the server shows; *podwright.Engine implements it. Its methods are called from
// many goroutines.
type Engine interface {
	Pods() []v1.Pod
	Pod(uid types.UID) (*v1.Pod, bool)
	PodNamed(namespace, name string) (*v1.Pod, bool)
	ContainerLog(ctx context.Context, uid types.UID, container string, options containerlog.Options, w io.Writer) error
	Healthy() error
}

// Stats serves pages about what the node and its pods use; *stats.Source implements it. Its methods
// are called from many goroutines, and return within seconds.
type Stats interface {
	ServeSummary(w http.ResponseWriter, r *http.Request)
	ServeResource(w http.ResponseWriter, r *http.Request)
	ServeContainers(w http.ResponseWriter, r *http.Request)
}

// Options configures [New]. Node, Engine and Certificate are required.
type Options struct {
	// Node is the name of the Node, to whose subresources users need rights.
	Node string
	// Engine has the pods and their logs.
	Engine Engine
	// Runtime serves streams, as a [cri.Streamer] or a [cri.DirectStreamer], and ports, as a Streamer or a
	// [cri.DirectForwarder]. What it does not serve is answered with 501; if it is nil, everything is.
	Runtime cri.Reader

	// Metrics are shown by /metrics and, if their names begin with prober_, by /metrics/probes.
	// Several goroutines gather at once. Nil means that there are no such pages.
	Metrics prometheus.Gatherer

	// Stats are the pages /stats/summary, /metrics/resource and /metrics/cadvisor. Nil means that
	// there are no such pages.
	Stats Stats

	// Config returns the agent's settings, which /configz shows as JSON, in the shape of a
	// KubeletConfiguration. They must not contain secrets. Nil means that there is no such page.
	Config func() any
	// CheckpointDir is the absolute folder to which /checkpoint makes the runtime, as a [cri.Checkpointer],
	// write the state of containers. It is created if it is missing; its files contain the memory of
	// processes, and are never removed. Empty means that there are no checkpoints.
	CheckpointDir string

	// Certificate returns the server's certificate for a handshake. It is called for each one, so that a
	// certificate can be replaced without a restart.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCAs returns the authorities whose client certificates are accepted: the common name is
	// the user, the organisations are the groups. Nil, or a nil pool, means that none is accepted.
	ClientCAs func() *x509.CertPool
	// Tokens reviews bearer tokens. Nil means that no token is accepted.
	Tokens authenticationclient.TokenReviewsGetter
	// Access decides what a user may do. Nil means nothing, for every user.
	Access authorizationclient.SubjectAccessReviewsGetter
	// Clock is the time of reviews, of certificates and of the deadlines of connections; a clock
	// that is behind the machine's cuts off clients. Nil means the real clock.
	Clock clock.Clock
	// Logger is silent if zero.
	Logger logr.Logger
}

func (o *Options) complete() error {
	var problems []error
	if o.Node == "" {
		problems = append(problems, errors.New("no Node: the name of the Node is required"))
	}
	if o.Engine == nil {
		problems = append(problems, errors.New("no Engine: it is required"))
	}
	if o.Certificate == nil {
		problems = append(problems, errors.New("no Certificate: the server speaks TLS only"))
	}
	if o.CheckpointDir != "" && !filepath.IsAbs(o.CheckpointDir) {
		problems = append(problems, fmt.Errorf("the path CheckpointDir %q is not absolute", o.CheckpointDir))
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	return errors.Join(problems...)
}
