//go:build apiserver

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/kube/apitest"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// onAPIServer serves the node n1 with the pod web to a real API server, as system:node:n1.
func onAPIServer(t *testing.T, engine *node, rt cri.Reader) (c *apitest.Cluster, address string) {
	t.Helper()
	c = apitest.Start(t, apitest.Options{})
	certificate, key, err := c.ServingCertificate("n1", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(c.CA()) {
		t.Fatal("no authority")
	}
	agent := kubernetes.NewForConfigOrDie(c.Node("n1"))
	s, err := New(Options{
		Node: "n1", Engine: engine, Runtime: rt, ClientCAs: func() *x509.CertPool { return cas },
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil },
		Tokens:      agent.AuthenticationV1(), Access: agent.AuthorizationV1(),
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	announce(t, kubernetes.NewForConfigOrDie(c.Admin()), l.Addr().(*net.TCPAddr).Port)
	return c, "https://" + l.Addr().String()
}

// announce makes the Node with the server's port, and the pod on it.
func announce(t *testing.T, admin kubernetes.Interface, port int) {
	t.Helper()
	ctx := t.Context()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	if _, err := admin.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(object any) []byte {
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	_, err := admin.CoreV1().Nodes().Patch(ctx, "n1", types.MergePatchType, patch(map[string]any{"status": v1.NodeStatus{
		Addresses:       []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: int32(port)}},
	}}), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: web.Name, Namespace: web.Namespace},
		Spec:       v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "app", Image: "x"}, {Name: "waiting", Image: "x"}}},
	}
	if _, err := admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Pods("default").Patch(ctx, web.Name, types.MergePatchType,
		patch(map[string]any{"status": v1.PodStatus{Phase: v1.PodRunning}}), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// KH3-KH5, KH8 on a real API server with the real kubectl: logs, followed too, exec with its exit code
// and its input, and the refusals.
func TestAPIServerReachesContainers(t *testing.T) {
	engine := &node{log: func(_ context.Context, options containerlog.Options, w io.Writer) error {
		if options.Previous {
			return fmt.Errorf("previous terminated container %q in pod %q not found", "app", "web")
		}
		for i := range 3 {
			if _, err := fmt.Fprintf(w, "line %d follow=%v\n", i, options.Follow); err != nil {
				return err
			}
		}
		return nil
	}}
	c, _ := onAPIServer(t, engine, &direct{exec: func(ctx context.Context, id string, cmd []string, s cri.Streams) error {
		if cmd[0] == "greet" {
			_, err := fmt.Fprintf(s.Stdout, "hello from %s\n", id)
			return err
		}
		return program(ctx, id, cmd, s)
	}})
	for _, tc := range []struct {
		args string
		out  string
		err  string // part of it; empty for none
	}{
		{"logs web -c app", "line 0 follow=false\nline 1 follow=false\nline 2 follow=false\n", ""},
		{"logs -f web -c app", "line 0 follow=true\nline 1 follow=true\nline 2 follow=true\n", ""},
		{"logs --previous web -c app", "", `previous terminated container "app" in pod "web" not found`},
		{"exec web -c app -- greet", "hello from c1\n", ""},
		{"exec web -c app -- exit", "", "exit code 7"},
		{"exec web -c waiting -- greet", "", `container not found ("waiting")`},
	} {
		began := time.Now()
		out, err := c.Kubectl(t.Context(), strings.Fields(tc.args)...)
		if out != tc.out || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("kubectl %s: %q, %v; want %q, %q", tc.args, out, err, tc.out, tc.err)
		}
		t.Logf("kubectl %s: %s", tc.args, time.Since(began).Round(time.Millisecond))
	}
	// A console in a browser, whose protocol the API server passes on as it is.
	secure, err := rest.TLSConfigFor(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	dialer := websocket.Dialer{TLSClientConfig: secure, Subprotocols: []string{"base64.channel.k8s.io"}}
	path := "/api/v1/namespaces/default/pods/web/exec?container=app&command=greet&stdout=true"
	conn, response, err := dialer.DialContext(t.Context(), strings.Replace(c.Admin().Host, "https", "wss", 1)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = response.Body.Close()
	if got := heard(t, conn, true); got[stdoutChannel] != "hello from c1\n" || got[errorChannel] != "" {
		t.Errorf("over base64.channel.k8s.io: %q", got)
	}
}

// KH1, KH2 on a real API server: service accounts' and users' rights decide, and while it is away what
// was decided holds.
func TestAPIServerDecidesAccess(t *testing.T) {
	c, address := onAPIServer(t, &node{}, nil)
	admin := kubernetes.NewForConfigOrDie(c.Admin())
	get := func(config *rest.Config, path string) int {
		t.Helper()
		config = rest.CopyConfig(config)
		config.Host, config.CAData = address, c.CA()
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if code := get(c.Admin(), "/pods"); code != http.StatusOK {
		t.Errorf("the administrator: %d", code)
	}
	if code := get(c.User("joe"), "/pods"); code != http.StatusForbidden {
		t.Errorf("joe without rights: %d", code)
	}
	if code := get(c.Expired("jane", "system:masters"), "/pods"); code != http.StatusUnauthorized {
		t.Errorf("an expired certificate: %d", code)
	}
	if _, err := c.Kubectl(t.Context(), "create", "clusterrole", "pods-of-nodes", "--verb=get", "--resource=nodes/pods"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "create", "clusterrolebinding", "sa", "--clusterrole=pods-of-nodes", "--serviceaccount=default:default"); err != nil {
		t.Fatal(err)
	}
	// The API server knows of the binding a moment later. The node's server keeps what it is told for longer.
	patience.Until(t, "the service account has the right", func() bool {
		review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:default:default",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "nodes", Subresource: "pods", Name: "n1"},
		}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed
	})
	out, err := c.Kubectl(t.Context(), "create", "token", "default")
	if err != nil {
		t.Fatal(err)
	}
	account := &rest.Config{BearerToken: strings.TrimSpace(out)}
	if code := get(account, "/pods"); code != http.StatusOK {
		t.Errorf("the service account, for pods: %d", code)
	}
	if code := get(account, "/containerLogs/default/web/app"); code != http.StatusForbidden {
		t.Errorf("the service account, for logs: %d", code)
	}
	if code := get(&rest.Config{BearerToken: "made up"}, "/pods"); code != http.StatusUnauthorized {
		t.Errorf("a made up token: %d", code)
	}
	if _, err := admin.Discovery().ServerVersion(); err != nil {
		t.Fatal(err)
	}
	if err := c.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := get(account, "/pods"); code != http.StatusOK {
		t.Errorf("API server away, what was decided: %d", code)
	}
	if code := get(&rest.Config{BearerToken: "another"}, "/pods"); code != http.StatusUnauthorized {
		t.Errorf("API server away, a new token: %d", code)
	}
	if code := get(c.Admin(), "/healthz"); code != http.StatusInternalServerError {
		t.Errorf("API server away, a right that was not asked for before: %d", code)
	}
}
