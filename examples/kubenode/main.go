// Command kubenode is a node of a Kubernetes cluster: it runs the pods that the scheduler
// binds to it on any CRI runtime, as a kubelet does.
//
//	kubenode --kubeconfig FILE [--node-name NAME] [--runtime unix:///run/containerd/containerd.sock]
//
// The credentials are those of system:node:NAME in the group system:nodes. SIGTERM or
// SIGINT ends it and leaves the pods running; a second one, a second or more later, ends it at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/examples/internal/endsignal"
	"github.com/podwright/podwright/kube"
	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/runtime/cri"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the process: it returns the exit code. Tests use change.
func run(args []string, stdout, stderr io.Writer, change ...func(*options)) int {
	o, err := parse(args, stdout)
	for _, c := range change {
		c(&o)
	}
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		ctx, stop := endsignal.Context() // a second signal ends a stop that hangs
		defer stop()
		err = serve(ctx, o, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "kubenode:", err)
		return codeOf(err)
	}
	return 0
}

// nodeGone is the exit code after which kubenode.service starts kubenode no more: it would register the Node again, which
// --when-gone=drain and --when-gone=exit do not want.
const nodeGone = 4

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	if errors.Is(err, kube.ErrNodeGone) {
		return nodeGone
	}
	return 1
}

// options are what the command line says.
type options struct {
	kubeconfig, name, runtime, root, address, clusterDNS string
	certificate, key, clientCA                           string
	plugins                                              kube.CredentialPlugins
	certificates                                         certificateFlags
	pods                                                 podOptions
	port, verbosity                                      int
	config, whenGone                                     string
	gone                                                 kube.Policy
	upkeep                                               upkeep
	offline                                              offlineFlags
	bootID                                               string // empty: the machine's own
	labels                                               labels
}

// labels are the values of the repeated flag --label KEY=VALUE.
type labels map[string]string

// String implements [flag.Value].
func (l labels) String() string { return fmt.Sprint(map[string]string(l)) }

func (l labels) repeatable() {}

// Set implements [flag.Value].
func (l labels) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q is not KEY=VALUE", text)
	}
	l[key] = value
	return nil
}

// flagSet declares the flags, which set the fields of o.
func flagSet(o *options) *flag.FlagSet {
	host, _ := os.Hostname()
	flags := flag.NewFlagSet("kubenode", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints errors and help
	flags.Usage = func() {}
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "`file` that says how to reach the API server, and as whom")
	flags.StringVar(&o.name, "node-name", strings.ToLower(host), "`name` of the Node")
	flags.StringVar(&o.runtime, "runtime", "unix:///run/containerd/containerd.sock", "CRI `socket`")
	flags.StringVar(&o.root, "root", "/var/lib/kubenode", "`folder` of the agent, which no other user can change")
	flags.StringVar(&o.address, "address", "", "IP `address` of the node, on which its server listens; empty: the one that leads to the API server, or else to the default route, and the server listens on all")
	o.pods.register(flags)
	flags.StringVar(&o.clusterDNS, "cluster-dns", "", "IP `address` of the cluster's name server")
	flags.IntVar(&o.port, "port", 10250, "`port` of the HTTPS server for kubectl logs and exec; 0: any that is free, -1: no server")
	flags.StringVar(&o.certificate, "tls-cert-file", "", "`file` with the server's certificate; empty: one that signs itself")
	flags.StringVar(&o.key, "tls-private-key-file", "", "`file` with its key")
	flags.StringVar(&o.clientCA, "client-ca-file", "", "`file` with who signs the certificates of the server's clients; empty: the authority in the kubeconfig")
	flags.StringVar(&o.plugins.Config, "image-credential-provider-config", "", "`file` of the kind CredentialProviderConfig, or folder of such files; empty: no credential plugins")
	flags.StringVar(&o.plugins.BinDir, "image-credential-provider-bin-dir", "", "`folder` of the credential plugins, which no other user can change")
	f := &o.certificates
	flags.StringVar(&f.bootstrap, "bootstrap-kubeconfig", "", "`file` with credentials, such as a bootstrap token, to ask for a client certificate with while the node has no valid one; --kubeconfig is written then if it is missing")
	flags.StringVar(&f.dir, "cert-dir", "", "`folder` for certificates that the cluster issues, which no other user can change; empty: pki in --root")
	flags.BoolVar(&f.rotate, "rotate-certificates", false, "ask for another client certificate before the one that the node has expires")
	flags.BoolVar(&f.server, "rotate-server-certificates", false, "ask the cluster for the server's certificate; its requests have to be approved")
	flags.DurationVar(&f.lifetime, "cert-lifetime", 0, "`duration` that certificates are asked for, 10m or more; 0: what the signer grants")
	flags.IntVar(&o.verbosity, "v", 0, "`level` of detail of the log: 0 to 4")
	flags.StringVar(&o.whenGone, "when-gone", "rejoin", "what follows when the Node is deleted: rejoin, drain or exit")
	o.upkeep.register(flags)
	o.offline.register(flags)
	flags.Var(o.labels, "label", "`KEY=VALUE` of a label of the Node; may be repeated")
	flags.StringVar(&o.config, "config", "", "`file` with these settings, in YAML: its fields are the names of the flags; what the command line says wins. No other user may be able to change it")
	return flags
}

// parse reads the command line, and the file that it names; help goes to stdout.
func parse(args []string, stdout io.Writer) (options, error) {
	o := options{labels: labels{}}
	flags := flagSet(&o)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		writeHelp(stdout, flags)
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w; kubenode --help lists the flags", err)
	}
	if err := readConfigFile(flags, o.config); err != nil {
		return o, err
	}
	o.name = strings.ToLower(o.name) // as the kubelet does
	policies := map[string]kube.Policy{"rejoin": kube.Rejoin, "drain": kube.Drain, "exit": kube.Exit}
	policy, known := policies[o.whenGone]
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("there are no arguments, but %q is one", flags.Arg(0))
	case o.address != "" && net.ParseIP(o.address) == nil:
		return o, fmt.Errorf("--address %q is no IP address", o.address)
	case o.address != "" && !net.ParseIP(o.address).IsGlobalUnicast():
		return o, fmt.Errorf("--address %s does not lead to this node from other machines: it must be an address at which the cluster reaches this one", o.address)
	case (o.plugins.Config == "") != (o.plugins.BinDir == ""):
		return o, errors.New("--image-credential-provider-config and --image-credential-provider-bin-dir belong together")
	case !known:
		return o, fmt.Errorf("--when-gone %q is none of rejoin, drain and exit", o.whenGone)
	}
	o.gone = policy
	return o, errors.Join(o.certificates.check(o), o.pods.complete())
}

// serve runs the node until ctx ends.
func serve(ctx context.Context, o options, stderr io.Writer) error {
	logger := newLogger(stderr, o.verbosity)
	certificates, err := o.certificates.options(o.root)
	if err != nil {
		return err
	}
	api, writeKubeconfig, err := apiConfig(o, certificates.Dir)
	if err != nil {
		return err
	}
	config := podwright.Config{
		RootDir: o.root,
		Node:    podwright.Node{Name: o.name, ClusterDNS: words(o.clusterDNS), BootID: o.bootID},
		Observe: podwright.Observe{Logger: logger},
	}
	metrics, err := kube.NewMetrics()
	if err != nil {
		return err
	}
	config.Observe.MeterProvider = metrics.Provider
	if err := o.upkeep.apply(&config); err != nil {
		return err
	}
	reserved, err := o.upkeep.reserved()
	if err != nil {
		return err
	}
	runtime, err := cri.Dial(ctx, o.runtime, cri.Options{Meter: metrics.Provider.Meter("github.com/podwright/podwright/runtime/cri")})
	if err != nil {
		return fmt.Errorf("--runtime %s: %w", o.runtime, err)
	}
	defer func() { _ = runtime.Close() }()
	config.Runtime, config.Images = runtime, runtime
	config.Pods.SeccompDefault = true
	config.Pods.ImagePull.CredentialsDir = o.root // like the kubelet's config.json
	if err := o.pods.configure(&config, logger); err != nil {
		return err
	}
	own := &ownAddress{find: func(ctx context.Context) (string, error) { return nodeIP(ctx, o, api.Host, sourceAddress) }, logger: logger}
	searching, stop := context.WithCancel(ctx)
	defer func() { stop(); own.wait() }()
	shown := node.Options{Labels: maps.Clone(o.labels), Reserved: reserved, Addresses: func() []v1.NodeAddress { return addresses(o.name, own.current(searching)) }}
	server, err := listen(o, api, logger)
	if err != nil {
		return err
	}
	kept, err := o.offline.options()
	if err != nil {
		return err
	}
	server.Metrics = metrics.Gatherer
	agent, err := kube.New(kube.Options{
		Config: api, Node: shown, WhenGone: o.gone, Server: server, Credentials: o.plugins, Certificates: certificates, Offline: kept,
	}, &config)
	if err != nil {
		return err
	}
	engine, err := podwright.New(config)
	if err != nil {
		return err
	}
	if writeKubeconfig != nil {
		defer onceRegistered(ctx, agent.Registered(), func() {
			if err := writeKubeconfig(); err != nil {
				logger.Error(err, "The kubeconfig is not written; the bootstrap credentials are needed at the next start", "file", o.kubeconfig)
			}
		})()
	}
	logger.Info("kubenode started", "node", o.name, "server", api.Host, "runtime", o.runtime)
	return agent.Run(ctx, engine)
}

// newLogger logs to w, including what the client libraries log.
func newLogger(w io.Writer, verbosity int) logr.Logger {
	handler := slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.Level(-verbosity)})
	klog.SetSlogLogger(slog.New(handler))
	return logr.FromSlogHandler(handler)
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
