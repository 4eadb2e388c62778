package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// The clients of the tests, of client-go, keep a heartbeat for up to 5 s and a timer of 1 s when
// their connection is cut.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"),
		goleak.IgnoreTopFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

// node is an engine with one pod.
type node struct {
	pod  *v1.Pod // nil: web
	log  func(ctx context.Context, options containerlog.Options, w io.Writer) error
	sick error
}

var web = &v1.Pod{
	ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "uid-web"},
	Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: "waiting"}}},
	Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
		{Name: "app", ContainerID: "test://c1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		{Name: "waiting", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}},
	}},
}

func (n *node) it() *v1.Pod {
	if n.pod != nil {
		return n.pod
	}
	return web
}

func (n *node) Pods() []v1.Pod { return []v1.Pod{*n.it()} }

func (n *node) Pod(uid types.UID) (*v1.Pod, bool) { return n.it(), uid == n.it().UID }

func (n *node) PodNamed(namespace, name string) (*v1.Pod, bool) {
	return n.it(), namespace == n.it().Namespace && name == n.it().Name
}

func (n *node) Healthy() error { return n.sick }

func (n *node) ContainerLog(ctx context.Context, uid types.UID, container string, options containerlog.Options, w io.Writer) error {
	if n.log == nil {
		return errors.New("no log")
	}
	return n.log(ctx, options, w)
}

// direct is a runtime that serves streams itself.
type direct struct {
	cri.Reader
	sandboxes []*runtimeapi.PodSandbox // that are ready; nil: s1 alone
	exec      func(ctx context.Context, id string, cmd []string, s cri.Streams) error
}

func (d *direct) ExecStream(ctx context.Context, id string, cmd []string, s cri.Streams) error {
	return d.exec(ctx, id, cmd, s)
}

func (d *direct) AttachStream(ctx context.Context, id string, s cri.Streams) error {
	return d.exec(ctx, id, nil, s)
}

func (d *direct) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if d.sandboxes != nil {
		return d.sandboxes, nil
	}
	return []*runtimeapi.PodSandbox{{Id: "s1"}}, nil
}

// remote is a runtime with a stream server.
type remote struct {
	direct
	url   string
	ports []int32 // of the last request to forward some
}

// Its methods hide those of the runtime that serves streams itself.
func (r *remote) Exec(_ context.Context, q *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if q.GetContainerId() != "c1" || len(q.GetCmd()) == 0 || q.GetTty() && q.GetStderr() {
		return nil, runtime.ErrInvalid
	}
	return &runtimeapi.ExecResponse{Url: r.url}, nil
}

func (r *remote) Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return &runtimeapi.AttachResponse{Url: r.url}, nil
}

func (r *remote) PortForward(_ context.Context, q *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	if q.GetPodSandboxId() != "s1" {
		return nil, runtime.ErrNotFound
	}
	r.ports = q.GetPort()
	return &runtimeapi.PortForwardResponse{Url: r.url}, nil
}

// authority signs certificates of the test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = a.sign(template, nil)
	return a
}

func (a *authority) sign(template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// issue returns a certificate for a name; usage says for which end.
func (a *authority) issue(name string, usage x509.ExtKeyUsage, groups ...string) tls.Certificate {
	cert, key := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// rig is a server under test with an API server that knows the token "good".
type rig struct {
	*testing.T
	ca      *authority
	engine  *node
	api     *fake.Clientset
	clock   *clocktesting.FakeClock
	away    atomic.Bool // the API server does not answer
	mu      sync.Mutex
	asked   []authorization.SubjectAccessReviewSpec
	reviews int // of tokens
	may     func(authorization.SubjectAccessReviewSpec) bool
	server  *Server
	pipes   *pipes // nil unless its connections are in memory
	address string
	stop    func() error
}

func newRig(t *testing.T, rt cri.Reader, configure ...func(*Options)) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, l, rt, configure...)
}

// newRigOn is newRig with a listener of the test's. The clock is ahead of the machine's, so that no deadline of a
// connection passes however slow the machine is.
func newRigOn(t *testing.T, l net.Listener, rt cri.Reader, configure ...func(*Options)) *rig {
	t.Helper()
	r := &rig{
		T: t, ca: newAuthority(t), engine: &node{}, api: fake.NewClientset(), clock: clocktesting.NewFakeClock(time.Now().Add(time.Hour)),
		may: func(authorization.SubjectAccessReviewSpec) bool { return true },
	}
	r.api.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		if r.away.Load() {
			return true, nil, errors.New("connection refused")
		}
		review := a.(clienttesting.CreateAction).GetObject().(*authentication.TokenReview).DeepCopy()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reviews++
		if review.Spec.Token == "good" {
			review.Status = authentication.TokenReviewStatus{Authenticated: true, User: authentication.UserInfo{Username: "jane", Groups: []string{"staff"}}}
		}
		return true, review, nil
	})
	r.api.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		if r.away.Load() {
			return true, nil, errors.New("connection refused")
		}
		review := a.(clienttesting.CreateAction).GetObject().(*authorization.SubjectAccessReview).DeepCopy()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked = append(r.asked, review.Spec)
		review.Status.Allowed = r.may(review.Spec)
		return true, review, nil
	})
	certificate := r.ca.issue("node", x509.ExtKeyUsageServerAuth)
	options := Options{
		Node: "n1", Engine: r.engine, Runtime: rt, Clock: r.clock,
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
		ClientCAs:   r.ca.pool, Tokens: r.api.AuthenticationV1(), Access: r.api.AuthorizationV1(),
	}
	for _, f := range configure {
		f(&options)
	}
	s, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	r.server = s
	r.address = "https://" + l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

// client returns a client with this certificate, if any.
func (r *rig) client(certificates ...tls.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.ca.pool(), Certificates: certificates, MinVersion: tls.VersionTLS12}}
	r.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get asks with a token and returns code and body.
func (r *rig) get(path, token string) (int, string) {
	return r.do(r.client(), http.MethodGet, path, token)
}

func (r *rig) do(client *http.Client, method, path, token string) (int, string) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), method, r.address+path, nil)
	if err != nil {
		r.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(body))
}

// config is how client-go reaches the server.
func (r *rig) config() *rest.Config {
	return &rest.Config{
		Host: r.address, BearerToken: "good",
		TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(r.ca.cert)},
	}
}
