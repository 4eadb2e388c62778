//go:build apiserver

package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/apitest"
	"github.com/podwright/podwright/kube/certs"
	"github.com/podwright/podwright/kube/node"
	runtimefake "github.com/podwright/podwright/runtime/fake"
)

// Sizes of TestAPIServerCertificates.
var (
	certificateLife = flag.Duration("certificate.life", 12*time.Second, "how long the cluster's certificates last")
	rotations       = flag.Int("certificate.rotations", 1, "how often the client certificate is renewed under traffic")
	asleep          = flag.Bool("certificate.asleep", false, "the API server is away for longer than a certificate lasts, after that")
)

const bootstrapToken = "abcdef.0123456789abcdef"

// joinable lets nodes join by bootstrap token, as kubeadm prepares a cluster: the token asks, and requests for client
// certificates are approved by the controller manager. Those for servers are left to operators.
func (f *fleet) joinable() {
	f.t.Helper()
	group := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}}
	}
	token := &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
	}
	if _, err := f.operator.CoreV1().Secrets("kube-system").Create(f.t.Context(), token, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	for role, to := range map[string]string{
		"system:node-bootstrapper": "system:bootstrappers",
		"system:certificates.k8s.io:certificatesigningrequests:nodeclient":     "system:bootstrappers",
		"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": "system:nodes",
	} {
		_, err := f.operator.RbacV1().ClusterRoleBindings().Create(f.t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "join-" + role}, Subjects: group(to),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}, metav1.CreateOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// join starts a node that has nothing but a bootstrap token.
func (f *fleet) join(name string, c Certificates, o Options) *Agent {
	f.t.Helper()
	runtime := runtimefake.New(runtimefake.Options{MaxCalls: 1000})
	config := podwright.Config{Runtime: runtime, Images: runtime, RootDir: filepath.Join(f.t.TempDir(), "root"), Node: podwright.Node{Name: name}}
	o.Config = &rest.Config{Host: f.api.Admin().Host, TLSClientConfig: rest.TLSClientConfig{CAData: f.api.CA()}}
	o.Certificates = c
	o.Certificates.Dir = filepath.Join(f.t.TempDir(), "pki")
	o.Certificates.Bootstrap = func() (*rest.Config, error) {
		bootstrap := rest.CopyConfig(o.Config)
		bootstrap.BearerToken = bootstrapToken
		return bootstrap, nil
	}
	agent, err := New(o, &config)
	if err != nil {
		f.t.Fatal(err)
	}
	engine, err := podwright.New(config)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, engine) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
	return agent
}

// traffic asks for the node's own Node, and watches its pods, until it is told to stop; then it tells how
// often, and what failed. It returns when the first watch is open.
func (f *fleet) traffic(name string, client *kubernetes.Clientset) (stop func() (asked, watches int, problems error)) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var work sync.WaitGroup
	var asked, watches int
	var failed, broken error
	work.Go(func() {
		for ctx.Err() == nil {
			if _, err := client.CoreV1().Nodes().Get(f.t.Context(), name, metav1.GetOptions{}); err != nil {
				failed = errors.Join(failed, err)
			}
			asked++
			_ = timing.Sleep(ctx, clock.RealClock{}, 20*time.Millisecond)
		}
	})
	opened := make(chan struct{})
	open := sync.OnceFunc(func() { close(opened) })
	work.Go(func() {
		defer open()
		for ctx.Err() == nil {
			w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()})
			if err != nil {
				if ctx.Err() == nil {
					broken = errors.Join(broken, err)
				}
				return
			}
			watches++
			open()
			for e := range w.ResultChan() {
				if status, ok := e.Object.(*metav1.Status); ok && ctx.Err() == nil {
					broken = errors.Join(broken, fmt.Errorf("the watch says %s", status.Message))
				}
			}
			w.Stop()
		}
	})
	<-opened
	return func() (int, int, error) {
		cancel()
		work.Wait()
		return asked, watches, errors.Join(failed, broken)
	}
}

// another waits until the client certificate is another one.
func (f *fleet) another(a *Agent, than string, limit time.Duration) (serial string) {
	f.t.Helper()
	began := time.Now()
	limit = patience.Of(limit)
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	for {
		c, err := a.client.Certificate()
		if err == nil && c.Leaf.SerialNumber.String() != than {
			f.t.Logf("%s: another certificate after %s", a.name, time.Since(began).Round(10*time.Millisecond))
			return c.Leaf.SerialNumber.String()
		}
		if timing.Sleep(ctx, clock.RealClock{}, 10*time.Millisecond) != nil {
			f.t.Fatalf("%s: no other certificate after %s: %v", a.name, limit, err)
		}
	}
}

// TestAPIServerCertificates: a node joins by bootstrap token; its certificate is renewed under traffic, of which nothing is
// lost; another one, which does not renew, finds its certificate expired and bootstraps again without a restart; the server's
// certificate comes once its request is approved (KC1-KC4). With a flag the API server is away for longer than
// a certificate lasts.
func TestAPIServerCertificates(t *testing.T) {
	f := &fleet{t: t, api: apitest.Start(t, apitest.Options{
		Controllers: true, Args: []string{"--enable-bootstrap-token-auth"}, ControllerArgs: []string{"--cluster-signing-duration=" + certificateLife.String()},
	})}
	f.operator = kubernetes.NewForConfigOrDie(f.api.Admin())
	t.Cleanup(f.operator.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	f.joinable()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shown := node.Options{Addresses: func() []v1.NodeAddress { return []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.1"}} }}
	sleeper := f.join("edge-2", Certificates{}, Options{Local: true})
	renewing := f.join("edge-1", Certificates{Rotate: true, Serving: true}, Options{Local: true, Node: shown, Server: Server{Listener: listener}})
	sleepers := f.another(sleeper, "", time.Minute)
	<-renewing.Registered()

	f.approveServing(listener.Addr().String())
	stop := f.traffic("edge-1", renewing.clients.all)
	serial := f.another(renewing, "", time.Minute) // each later one ends a watch
	for i := range *rotations {
		serial = f.another(renewing, serial, 2**certificateLife+time.Minute)
		pod := f.create(fmt.Sprintf("pod-%d", i), "edge-1")
		f.until("a pod of the new certificate runs", f.running(pod))
	}
	asked, watches, problems := stop()
	t.Logf("%d requests and %d watches across %d rotations", asked, watches, *rotations)
	if problems != nil || watches < *rotations+1 {
		t.Errorf("%d watches; %v", watches, problems)
	}
	f.another(sleeper, sleepers, 2**certificateLife+time.Minute)
	f.until("its pods run again", f.running(f.create("after", "edge-2")))

	if !*asleep {
		return
	}
	if err := f.api.APIServer.Stop(); err != nil {
		t.Fatal(err)
	}
	f.sleepPastExpiry(renewing)
	if err := errors.Join(f.api.APIServer.Start(), f.api.WaitReady(t.Context())); err != nil {
		t.Fatal(err)
	}
	f.another(renewing, serial, 3*time.Minute)
	f.until("a pod runs after the night", f.running(f.create("morning", "edge-1")))
	f.until("nothing was started twice", f.running(f.create("again", "edge-1")))
}

// sleepPastExpiry waits until a node has no certificate any more.
func (f *fleet) sleepPastExpiry(a *Agent) {
	f.t.Helper()
	for {
		if _, err := a.client.Certificate(); errors.Is(err, certs.ErrNone) {
			return
		}
		if err := timing.Sleep(f.t.Context(), clock.RealClock{}, time.Second); err != nil {
			f.t.Fatal(err)
		}
	}
}

// approveServing approves the request for the server's certificate, which nothing else does, and waits for the server to show it.
func (f *fleet) approveServing(address string) {
	f.t.Helper()
	requests := f.operator.CertificatesV1().CertificateSigningRequests()
	f.until("a request for the server's certificate", func() error {
		list, err := requests.List(f.t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + certs.ServingSigner})
		if err != nil || len(list.Items) == 0 {
			return fmt.Errorf("%d requests: %w", len(list.Items), errors.Join(err, errors.New("none yet")))
		}
		r := list.Items[0]
		if len(r.Status.Conditions) != 0 {
			f.t.Errorf("approved by another: %+v", r.Status.Conditions)
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue, Reason: "Test"}}
		_, err = requests.UpdateApproval(f.t.Context(), r.Name, &r, metav1.UpdateOptions{})
		return err
	})
	authorities, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: f.api.CA()}})
	if err != nil {
		f.t.Fatal(err)
	}
	dialer := &tls.Dialer{Config: authorities}
	f.until("the server shows its certificate", func() error {
		connection, err := dialer.DialContext(f.t.Context(), "tcp", address)
		if err != nil {
			return err
		}
		leaf := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
		if leaf.Subject.CommonName != "system:node:edge-1" {
			f.t.Errorf("subject %s", leaf.Subject)
		}
		return connection.Close()
	})
}
