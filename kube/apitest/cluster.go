package apitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/internal/timing"
)

// readyLimit is how long the servers may take to answer.
func readyLimit() time.Duration { return patience.Of(time.Minute) }

// Options configures a [Cluster]. The zero value is etcd and an API server on loopback.
type Options struct {
	// Scheduler and Controllers start kube-scheduler and kube-controller-manager.
	Scheduler, Controllers bool
	// MetricsServer prepares the API server for metrics-server; [Cluster.ServeMetrics] starts it.
	MetricsServer bool
	// Dir is a folder for data, logs and credentials, which is created with mode 0700.
	// Required for [New]; [Start] makes one of its own.
	Dir string
	// Address is where the API server listens, an IP address of this machine. Empty means
	// 127.0.0.1, which containers cannot reach.
	Address string
	// Args are additional arguments of kube-apiserver, ControllerArgs of kube-controller-manager.
	Args, ControllerArgs []string
}

// Cluster is a control plane. All methods are safe for concurrent use.
type Cluster struct {
	Etcd, APIServer *Process
	// Scheduler and Controllers are nil unless requested.
	Scheduler, Controllers *Process
	// MetricsServer is nil unless requested, and is not started by [Start].
	MetricsServer *Process

	dir, programs, host string
	authority           *authority
	data                string
}

// Start starts a cluster for a test, and ends it with the test. The test fails if the cluster does
// not become ready.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	if options.Dir == "" {
		options.Dir = filepath.Join(t.TempDir(), "cluster")
	}
	c, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// New starts a cluster and returns once its API server is ready. Close ends it.
func New(ctx context.Context, options Options) (_ *Cluster, err error) {
	if options.Address == "" {
		options.Address = "127.0.0.1"
	}
	c := &Cluster{dir: options.Dir, data: filepath.Join(options.Dir, "etcd")}
	if c.programs, err = findPrograms(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	if c.authority, err = newAuthority(clock.RealClock{}.Now()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.composeMetricsServer(ctx, &options); err != nil {
		return nil, err
	}
	if err := c.compose(options); err != nil {
		return nil, err
	}
	if err := errors.Join(c.Etcd.Start(), c.APIServer.Start()); err != nil {
		return nil, err
	}
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	for _, p := range []*Process{c.Scheduler, c.Controllers} {
		if p != nil {
			if err := p.Start(); err != nil {
				return nil, err
			}
		}
	}
	return c, c.prepare(ctx)
}

// Close stops all processes; the folder stays.
func (c *Cluster) Close() error {
	var problems []error
	for _, p := range []*Process{c.MetricsServer, c.Scheduler, c.Controllers, c.APIServer, c.Etcd} {
		if p != nil {
			problems = append(problems, p.Stop())
		}
	}
	return errors.Join(problems...)
}

// process makes a process that is not started.
func (c *Cluster) process(program string, args ...string) *Process {
	return &Process{program: filepath.Join(c.programs, program), args: args, log: filepath.Join(c.dir, program+".log")}
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// compose writes the credentials and makes the processes.
func (c *Cluster) compose(options Options) error {
	ports, err := freePorts(options.Address, 3)
	if err != nil {
		return err
	}
	c.host = "https://" + net.JoinHostPort(options.Address, ports[0])
	if err := c.credentials(options.Address); err != nil {
		return err
	}
	etcd := "http://127.0.0.1:" + ports[1]
	c.Etcd = c.process("etcd", "--data-dir="+c.data, "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls=http://127.0.0.1:"+ports[2], "--unsafe-no-fsync", "--log-level=warn")
	c.APIServer = c.process("kube-apiserver", append([]string{
		"--etcd-servers=" + etcd, "--bind-address=" + options.Address, "--secure-port=" + ports[0],
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + c.file("ca.crt"), "--tls-cert-file=" + c.file("apiserver.crt"), "--tls-private-key-file=" + c.file("apiserver.key"),
		"--kubelet-preferred-address-types=InternalIP,Hostname", "--kubelet-certificate-authority=" + c.file("ca.crt"), "--kubelet-client-certificate=" + c.file("kubelet-client.crt"), "--kubelet-client-key=" + c.file("kubelet-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.file("accounts.pub"), "--service-account-signing-key-file=" + c.file("accounts.key"),
		"--profiling=false",
	}, options.Args...)...)
	if options.Scheduler {
		c.Scheduler = c.process("kube-scheduler", "--kubeconfig="+c.file("scheduler.kubeconfig"), "--leader-elect=false", "--secure-port=0")
	}
	if options.Controllers {
		c.Controllers = c.process("kube-controller-manager", append([]string{
			"--kubeconfig=" + c.file("controllers.kubeconfig"), "--leader-elect=false", "--secure-port=0",
			"--use-service-account-credentials", "--root-ca-file=" + c.file("ca.crt"), "--service-account-private-key-file=" + c.file("accounts.key"),
			"--cluster-signing-cert-file=" + c.file("ca.crt"), "--cluster-signing-key-file=" + c.file("ca.key"),
		}, options.ControllerArgs...)...)
	}
	return nil
}

// credentials writes the certificates, keys and kubeconfigs of the servers.
func (c *Cluster) credentials(address string) error {
	caKey, err := privatePEM(c.authority.key)
	if err != nil {
		return err
	}
	accounts, err := accountKeys()
	if err != nil {
		return err
	}
	problems := []error{
		pair{c.authority.pem, caKey}.write(c.dir, "ca"),
		os.WriteFile(c.file("accounts.key"), accounts.key, 0o600),
		os.WriteFile(c.file("accounts.pub"), accounts.certificate, 0o600),
		c.write("apiserver", identity{name: "kube-apiserver", names: []string{address, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1"}}),
		c.write("kubelet-client", identity{name: "kube-apiserver-kubelet-client", groups: []string{"kubeadm:cluster-admins", "system:masters"}}),
		c.Kubeconfig(c.file("scheduler.kubeconfig"), c.User("system:kube-scheduler")),
		c.Kubeconfig(c.file("controllers.kubeconfig"), c.User("system:kube-controller-manager")),
		c.Kubeconfig(c.file("admin.kubeconfig"), c.Admin()),
	}
	return errors.Join(problems...)
}

func (c *Cluster) write(name string, who identity) error {
	p, err := c.issue(who)
	if err != nil {
		return err
	}
	return p.write(c.dir, name)
}

// issue makes a certificate that is valid for a day, unless who sets other times.
func (c *Cluster) issue(who identity) (pair, error) {
	if who.until.IsZero() {
		now := clock.RealClock{}.Now()
		who.from, who.until = now.Add(-time.Hour), now.Add(24*time.Hour)
	}
	return c.authority.issue(who)
}

// accountKeys returns the keys that sign the tokens of service accounts; the public key is in the
// pair's certificate field.
func accountKeys() (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return pair{}, err
	}
	private, err := privatePEM(key)
	return pair{encode("PUBLIC KEY", public), private}, err
}

// WaitReady returns once the API server reports that it is ready, or, after a minute (more with
// PODWRIGHT_PATIENCE), an error that quotes the ends of the logs.
func (c *Cluster) WaitReady(ctx context.Context) error {
	ctx, cancel := timing.WithTimeout(ctx, clock.RealClock{}, readyLimit())
	defer cancel()
	config := c.Admin()
	config.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	defer closeIdle(client)
	for {
		_, err := client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		if !c.Etcd.Running() || !c.APIServer.Running() || timing.Sleep(ctx, clock.RealClock{}, 50*time.Millisecond) != nil {
			return fmt.Errorf("the API server is not ready: %w; end of the log of etcd:\n%s\nand of kube-apiserver:\n%s", err, c.Etcd.Tail(), c.APIServer.Tail())
		}
	}
}

// closeIdle closes the connections of a client that is no longer used, because their goroutines
// would outlive the test.
func closeIdle(client *kubernetes.Clientset) {
	if http := client.RESTClient().(*rest.RESTClient).Client; http != nil {
		http.CloseIdleConnections()
	}
}

// prepare waits for what every pod needs, and creates it where no controller does: the namespaces,
// and the service account default.
func (c *Cluster) prepare(ctx context.Context) error {
	ctx, cancel := timing.WithTimeout(ctx, clock.RealClock{}, readyLimit())
	defer cancel()
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	defer closeIdle(client)
	accounts := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	for {
		_, err := client.CoreV1().Namespaces().Get(ctx, v1.NamespaceNodeLease, metav1.GetOptions{})
		if err == nil && c.Controllers != nil {
			_, err = accounts.Get(ctx, "default", metav1.GetOptions{})
		} else if err == nil {
			_, err = accounts.Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
		}
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		if timing.Sleep(ctx, clock.RealClock{}, 50*time.Millisecond) != nil {
			return fmt.Errorf("the namespaces are not ready: %w", err)
		}
	}
}

// Admin returns the credentials of a cluster administrator.
func (c *Cluster) Admin() *rest.Config { return c.User("podwright-admin", "system:masters") }

// Node returns the credentials of the agent of a node: system:node:NAME.
func (c *Cluster) Node(name string) *rest.Config { return c.User("system:node:"+name, "system:nodes") }

// User returns the credentials of a user in groups, without any request limit.
func (c *Cluster) User(name string, groups ...string) *rest.Config {
	return c.userUntil(identity{name: name, groups: groups})
}

// Expired returns the credentials of a user whose certificate has expired.
func (c *Cluster) Expired(name string, groups ...string) *rest.Config {
	now := clock.RealClock{}.Now()
	return c.userUntil(identity{name: name, groups: groups, from: now.Add(-2 * time.Hour), until: now.Add(-time.Hour)})
}

func (c *Cluster) userUntil(who identity) *rest.Config {
	p, err := c.issue(who)
	if err != nil {
		panic(fmt.Sprintf("apitest: %v", err)) // fails only without randomness
	}
	return &rest.Config{
		Host: c.host, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem, CertData: p.certificate, KeyData: p.key},
	}
}

// ServingCertificate returns a certificate and key as PEM, signed by the authority that
// the API server trusts for agents' servers, for the names and addresses given.
func (c *Cluster) ServingCertificate(names ...string) (certificate, key []byte, err error) {
	p, err := c.issue(identity{name: "system:node:" + names[0], groups: []string{"system:nodes"}, names: names})
	return p.certificate, p.key, err
}

// CA returns the certificate authority of the cluster as PEM.
func (c *Cluster) CA() []byte { return c.authority.pem }

// Kubeconfig writes credentials to a file that only this user can read.
func (c *Cluster) Kubeconfig(path string, config *rest.Config) error {
	file := clientcmdapi.NewConfig()
	file.Clusters["podwright"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["podwright"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts["podwright"] = &clientcmdapi.Context{Cluster: "podwright", AuthInfo: "podwright"}
	file.CurrentContext = "podwright"
	content, err := clientcmd.Write(*file)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// Kubectl runs kubectl as the administrator and returns its output. The error quotes its standard
// error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, c.file("admin.kubeconfig"), args...)
}

// KubectlAs is Kubectl with other credentials.
func (c *Cluster) KubectlAs(ctx context.Context, config *rest.Config, args ...string) (string, error) {
	file, err := os.CreateTemp(c.dir, "kubeconfig-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if err := errors.Join(file.Close(), c.Kubeconfig(file.Name(), config)); err != nil {
		return "", err
	}
	return c.kubectl(ctx, file.Name(), args...)
}

func (c *Cluster) kubectl(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, c.Program("kubectl"), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Program returns the path of one of the programs, such as kubectl.
func (c *Cluster) Program(name string) string { return filepath.Join(c.programs, name) }

// Snapshot copies etcd's data to a folder that must not exist yet. etcd is stopped meanwhile, and
// then started again.
func (c *Cluster) Snapshot(ctx context.Context, dir string) error {
	if err := c.Etcd.Stop(); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(c.data)); err != nil {
		return err
	}
	if err := c.Etcd.Start(); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

// Rewind restores a snapshot, as an operator restores a backup: the API server is restarted too, so
// that its cache holds nothing newer.
func (c *Cluster) Rewind(ctx context.Context, dir string) error {
	if err := errors.Join(c.APIServer.Stop(), c.Etcd.Stop()); err != nil {
		return err
	}
	if err := os.RemoveAll(c.data); err != nil {
		return err
	}
	if err := os.CopyFS(c.data, os.DirFS(dir)); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(c.data, 0o700), c.Etcd.Start(), c.APIServer.Start()); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}
