package probe_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/probe"
)

// wantNoSecret fails unless the run had this result and this text in its event, and nothing secret.
func wantNoSecret(t *testing.T, e probe.Explanation, said []string, result, text string) {
	t.Helper()
	if e.LastResult != result || len(said) != 1 || !strings.Contains(said[0], text) || strings.Contains(said[0]+e.LastOutput, "secret") {
		t.Errorf("%+v, said %q", e, said)
	}
}

// frame is an HTTP/2 frame of a type, with flags, on a stream.
func frame(kind, flags, stream byte, payload string) string {
	return string([]byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, stream}) + payload
}

// field is a header field in HPACK.
func field(name, value string) string {
	return string([]byte{0, byte(len(name))}) + name + string([]byte{byte(len(value))}) + value
}

// answerFrames waits for a request in HTTP/2, answers it, and waits until the client closes.
func answerFrames(c net.Conn, frames string) {
	defer c.Close()
	_, _ = io.CopyN(io.Discard, c, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	for head := make([]byte, 9); head[3] != 1; { // HEADERS
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		_, _ = io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
	}
	_, _ = io.WriteString(c, frame(4, 0, 0, "")+frames)
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, c)
}

// TestNoHTTP2AnswerIsShown is 5.6 for HTTP/2.
func TestNoHTTP2AnswerIsShown(t *testing.T) {
	goaway := frame(7, 0, 0, "\x00\x00\x00\x01\x00\x00\x00\x0bpassword=secret")
	for name, c := range map[string]struct{ frames, result, says string }{
		"the reason of a GOAWAY": {goaway, "Failure", "the server closed the connection"},
		"in the body":            {frame(1, 4, 1, field(":status", "200")) + goaway, "", "read the body: the server closed the connection"},
		"a bad header":           {frame(1, 5, 1, field(":status", "200")+field("Secret", "x")), "Failure", "malformed HTTP response"},
		"a bad pseudo-header":    {frame(1, 5, 1, field(":secret", "x")), "Failure", "malformed HTTP response"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			defer func() { <-ended }()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				defer close(ended)
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					answerFrames(conn, c.frames)
				}
			}()
			get := v1.HTTPGetAction{Port: portOf(t, l.Addr().String()), Protocol: ptr.To(v1.HTTPProtocolHTTP2)}
			e, said := once(t, withHTTP(get), func(o *probe.Options) { o.HTTP2 = true })
			wantNoSecret(t, e, said, c.result, c.says)
		})
	}
}

type talkative struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (talkative) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return nil, status.Error(codes.Internal, "password=secret")
}

// TestNoGRPCMessageIsShown is 5.6 for grpc: an event has the code, and the node's own words.
func TestNoGRPCMessageIsShown(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l, ended := listen(), make(chan struct{})
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, talkative{})
	go func() {
		defer close(ended)
		_ = s.Serve(l)
	}()
	defer func() { s.Stop(); <-ended }()
	e, said := once(t, withGRPC(portOf(t, l.Addr().String()).IntVal, nil))
	wantNoSecret(t, e, said, "Failure", "health check: Internal")

	page := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "password=secret") }))
	page.Config.Protocols = new(http.Protocols)
	page.Config.Protocols.SetUnencryptedHTTP2(true)
	page.Start()
	defer page.Close()
	e, said = once(t, withGRPC(portOf(t, page.URL).IntVal, nil))
	wantNoSecret(t, e, said, "Failure", "health check: Unknown")

	none := listen()
	_ = none.Close()
	e, said = once(t, withGRPC(portOf(t, none.Addr().String()).IntVal, nil))
	wantNoSecret(t, e, said, "Failure", "connection refused")
}
