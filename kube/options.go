package kube

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/kube/stats"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

// Policy says what happens after the Node was deleted (KN7).
type Policy string

const (
	// Rejoin registers the Node again; no container restarts. It is the default.
	Rejoin Policy = ""
	// Drain stops all pods; then Run ends with [ErrNodeGone].
	Drain Policy = "Drain"
	// Exit ends Run with [ErrNodeGone] at once. The pods keep running.
	Exit Policy = "Exit"
)

// ErrNodeGone, wrapped in the error of Run, says that the Node was deleted and the policy is not to
// rejoin. It is [nodehooks.ErrNodeGone].
var ErrNodeGone = nodehooks.ErrNodeGone

// Options configures [New]. Config is required.
type Options struct {
	// Config says how to reach the API server, with which credentials: with the admission plugin
	// NodeRestriction, those of system:node:NAME. It is copied.
	Config *rest.Config
	// Node says what the Node shows. Its Name, Client, Leases, Reconnect, Skew, Leave, Clock,
	// Logger, Events and Meter are set by [New], most from the engine's configuration. MaxPods and the engine's
	// Admission.MaxPods are one limit: set either, or both to the same number.
	Node node.Options
	// WhenGone says what happens after the Node was deleted.
	WhenGone Policy
	// Server is the HTTPS server through which kubectl reaches logs, exec, attach and port-forward.
	// Zero means that there is none, and that these fail.
	Server Server
	// Credentials are the plugins that provide credentials of image registries. Zero means none.
	Credentials CredentialPlugins
	// Certificates says how the node gets and renews its certificates. Zero means that those in
	// Config and Server are never replaced.
	Certificates Certificates
	// Offline says what the node keeps on disk, so that pods start without an API server. Zero means
	// nothing; then, after a boot, pods that need a config map, secret or token wait for the server.
	Offline Offline
	// Local creates no mirror pods, which show static pods at the API server.
	Local bool
}

// CredentialPlugins are the credential provider plugins of a node (KG1, KG2).
type CredentialPlugins struct {
	// Config is the file of the kind CredentialProviderConfig, or a folder of such files.
	Config string
	// BinDir is the absolute folder of the plugins.
	BinDir string
}

// Server says how a node's server is reached.
type Server struct {
	// Listener accepts its connections; [Agent.Run] closes it. Nil means that there is no server.
	// The Node shows its port, unless Node.Port is set.
	Listener net.Listener
	// Certificate returns the server's certificate for a handshake. It is called for each one, so
	// that a certificate can be replaced without a restart. Required, unless Certificates.Serving
	// is set.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCAs returns the authorities whose client certificates are accepted, such as the one
	// that signed the API server's. Nil means that only bearer tokens are accepted.
	ClientCAs func() *x509.CertPool
	// Metrics are what /metrics and /metrics/probes show. Nil means those of the engine, of this
	// module, of Go and of the process. If the engine's configuration has its own
	// Observe.MeterProvider, nil means that there are no such pages. [NewMetrics] makes both.
	Metrics prometheus.Gatherer
	// Stats configures what measures the node and its pods for /stats/summary, /metrics/resource
	// and /metrics/cadvisor, which metrics-server, autoscalers and dashboards read. Empty fields
	// among Node, Runtime, Images, RootDir, Clock and Logger are set from the engine's
	// configuration; [Agent.Run] sets Engine.
	Stats stats.Options
	// NoStats omits these pages.
	NoStats bool
}

func (o *Options) complete() error {
	var problems []error
	if o.Config == nil {
		problems = append(problems, errors.New("no Config: how to reach the API server is required"))
	}
	switch o.WhenGone {
	case Rejoin, Drain, Exit:
	default:
		problems = append(problems, fmt.Errorf("the policy WhenGone %q is neither Rejoin (empty), %s nor %s", o.WhenGone, Drain, Exit))
	}
	if (o.Credentials.Config == "") != (o.Credentials.BinDir == "") {
		problems = append(problems, errors.New("Credentials.Config and Credentials.BinDir belong together: the configuration and the folder of its plugins"))
	}
	problems = append(problems, o.Certificates.check(o)...)
	problems = append(problems, o.Offline.check())
	if o.Server.Listener != nil {
		if o.Server.Certificate == nil && !o.Certificates.Serving {
			problems = append(problems, errors.New("no Server.Certificate, nor Certificates.Serving: the server speaks TLS only"))
		}
		if address, ok := o.Server.Listener.Addr().(*net.TCPAddr); ok && o.Node.Port == 0 {
			o.Node.Port = int32(address.Port)
		}
	}
	if o.Server.Stats.Engine != nil {
		problems = append(problems, errors.New("the field Server.Stats.Engine is set by this package"))
	}
	n := o.Node
	for name, set := range map[string]bool{
		"Name": n.Name != "", "Client": n.Client != nil, "Leases": n.Leases != nil, "Reconnect": n.Reconnect != nil, "Skew": n.Skew != nil,
		"Leave": n.Leave, "Clock": n.Clock != nil, "Logger": n.Logger.GetSink() != nil, "Events": n.Events != nil, "Meter": n.Meter != nil,
	} {
		if set {
			problems = append(problems, fmt.Errorf("the field Node.%s is set by this package", name))
		}
	}
	return errors.Join(problems...)
}
