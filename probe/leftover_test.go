package probe_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/probe"
)

// wantNothingLeft fails unless the goroutines end that were started since before was taken.
func wantNothingLeft(t *testing.T, before goleak.Option) {
	t.Helper()
	var err error
	for range 10 { // each waits for a while
		if err = goleak.Find(before); err == nil {
			return
		}
	}
	t.Error(err)
}

func oneSecond(p *v1.Probe) { p.TimeoutSeconds = 1 }

// TestTimedOutHTTP2LeavesNothing: the server completes the handshake and then reads nothing, so that
// the request is never written.
func TestTimedOutHTTP2LeavesNothing(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	config := &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}}
	certified.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended, accepted := make(chan struct{}), make(chan net.Conn, 10)
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			secure := tls.Server(c, config)
			if err := secure.Handshake(); err != nil {
				t.Error(err)
			}
			accepted <- c
		}
	}()
	defer func() {
		_ = l.Close()
		<-ended
		close(accepted)
		for c := range accepted {
			_ = c.Close()
		}
	}()
	before := goleak.IgnoreCurrent()
	e, _ := once(t, withHTTP(v1.HTTPGetAction{
		Port: portOf(t, l.Addr().String()), Scheme: "HTTPS",
		HTTPHeaders: []v1.HTTPHeader{{Name: "X-Long", Value: strings.Repeat("x", 16<<20)}},
	}, oneSecond))
	if e.LastResult != "Failure" || e.LastOutput != "no answer within 1s" || len(accepted) != 1 {
		t.Errorf("%+v, %d connections", e, len(accepted))
	}
	wantNothingLeft(t, before)
}

// TestLateConnectionIsClosed: a dial that succeeds after the end of the run is of no use.
func TestLateConnectionIsClosed(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	before := goleak.IgnoreCurrent()
	_, _ = once(t, withHTTP(v1.HTTPGetAction{Port: intstr.FromInt32(80), Protocol: ptr.To(v1.HTTPProtocolHTTP2)}, oneSecond), func(o *probe.Options) {
		o.HTTP2 = true
		o.Outbound.Dial = func(ctx context.Context, _ types.UID, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			<-time.After(50 * time.Millisecond)
			return client, nil
		}
	})
	read := make(chan error, 1)
	go func() {
		for {
			if _, err := server.Read(make([]byte, 4096)); err != nil {
				read <- err
				return
			}
		}
	}()
	select {
	case <-read:
	case <-time.After(5 * time.Second):
		t.Error("the connection stays open")
		_ = server.Close()
		<-read
	}
	wantNothingLeft(t, before)
}
