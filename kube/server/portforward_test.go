package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
)

// forwarding is a runtime that connects ports of its one sandbox itself. Port 80 sends back what it is sent,
// once that has ended; port 90 says one thing and takes nothing; port 70 is like 80, but first hangs up on as many clients
// as hangups says, after it has taken a little; nothing listens on others.
type forwarding struct {
	direct
	open, hangups atomic.Int32
}

func (f *forwarding) ForwardPort(ctx context.Context, sandbox string, port int32, conn io.ReadWriter) error {
	f.open.Add(1)
	defer f.open.Add(-1)
	switch {
	case sandbox != "s1":
		return runtime.ErrNotFound
	case port == 70 && f.hangups.Add(-1) >= 0:
		_, err := conn.Read(make([]byte, 1))
		return err
	case port == 80, port == 70:
		data, err := io.ReadAll(conn)
		if err == nil {
			_, err = conn.Write(data)
		}
		return err
	case port == 90:
		_, _ = io.WriteString(conn, "x")
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return fmt.Errorf("nothing listens there: %w", runtime.ErrFailedPrecondition)
}

// KH4: client-go is told that a port is refused: it closes the connection. Its reader of errors is package klog's.
func TestForwardRefused(t *testing.T) {
	r := newRig(t, &forwarding{})
	conn, err := net.Dial("tcp", forwarded(t, r, 81))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, _ := io.ReadAll(conn); len(text) > 0 {
		t.Errorf("it said %q", text)
	}
}

// KH4: while a pod has two ready sandboxes, its ports are those of the newest, in whatever order the runtime lists them.
func TestForwardToTheNewestSandbox(t *testing.T) {
	sandbox := func(id string, attempt uint32, created int64) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Attempt: attempt}, CreatedAt: created}
	}
	for _, list := range [][]*runtimeapi.PodSandbox{
		{sandbox("old", 0, 9), sandbox("s1", 1, 5)}, {sandbox("s1", 1, 5), sandbox("old", 0, 9)}, {sandbox("old", 0, 5), sandbox("s1", 0, 9)},
	} {
		here, there := &forwarding{direct: direct{sandboxes: list}}, &remote{direct: direct{sandboxes: list}, url: "http://192.0.2.1:1/token"}
		if got := newRig(t, here).portError("/portForward/default/web?port=81"); !strings.Contains(got, "nothing listens there") {
			t.Errorf("%v: %q", list, got)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/portForward/default/web", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "SPDY/3.1")
		request.SetPathValue("namespace", "default")
		request.SetPathValue("pod", "web")
		w := httptest.NewRecorder()
		(&streams{engine: &node{}, runtime: there, urls: there}).portForward(w, request)
		if !strings.Contains(w.Body.String(), "192.0.2.1") { // the URL of s1, which is refused
			t.Errorf("%v: %q", list, w.Body)
		}
	}
}

// KH4, KH8: a runtime with a stream server is told the ports of a WebSocket, which it cannot learn otherwise. It is not asked
// about those that cannot be read.
func TestPortsOfAWebSocketReachTheRuntime(t *testing.T) {
	for query, want := range map[string][]int32{"?port=8080&port=90": {8080, 90}, "?port=80,81": {80, 81}, "": nil, "?port=x": nil} {
		rt := &remote{url: "http://192.0.2.1:1/token"} // is refused, after it was asked
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/portForward/default/web"+query, nil)
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "websocket")
		request.SetPathValue("namespace", "default")
		request.SetPathValue("pod", "web")
		w := httptest.NewRecorder()
		(&streams{engine: &node{}, runtime: rt, urls: rt}).portForward(w, request)
		if !slices.Equal(rt.ports, want) || want == nil && w.Code != http.StatusBadRequest {
			t.Errorf("%q: ports %v, code %d %q", query, rt.ports, w.Code, w.Body)
		}
	}
}

// forwarded has client-go forward a port of the pod web; it returns the local address of it.
func forwarded(t *testing.T, r *rig, port int) (address string) {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(r.config())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(r.address + "/portForward/default/web/uid-web")
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u),
		[]string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	t.Cleanup(func() {
		close(stop)
		if err := <-ended; err != nil && !errors.Is(err, portforward.ErrLostConnectionToPod) {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
}

// KH4: many connections to a port of a runtime that forwards itself, at once, each with the end of its input.
func TestForwardHere(t *testing.T) {
	r := newRig(t, &forwarding{})
	address := forwarded(t, r, 80)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			sent := strings.Repeat(fmt.Sprintf("connection %02d ", i), 5000)
			_, err = io.WriteString(conn, sent)
			_ = conn.(*net.TCPConn).CloseWrite()
			back, readErr := io.ReadAll(conn)
			if err := errors.Join(err, readErr); err != nil || string(back) != sent {
				t.Errorf("connection %d: %d bytes of %d, %v", i, len(back), len(sent), err)
			}
		})
	}
	all.Wait()
}

// KH4: a pod that hangs up on clients that are still sending, as on an upload that it refuses, holds up no other connection:
// all of a client share one, in which what was not read would be in the way.
func TestForwardToPodThatHangsUp(t *testing.T) {
	const hangups = 10
	rt := &forwarding{}
	rt.hangups.Store(hangups)
	address := forwarded(t, newRig(t, rt), 70)
	for range hangups {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(patience.Of(20 * time.Second)))
		if err := flood(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection on which the pod has hung up does not end")
		}
		_ = conn.Close()
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "hello")
	if err := errors.Join(err, conn.(*net.TCPConn).CloseWrite(), conn.SetReadDeadline(time.Now().Add(patience.Of(20*time.Second)))); err != nil {
		t.Fatal(err)
	}
	if back, err := io.ReadAll(conn); err != nil || string(back) != "hello" {
		t.Errorf("the next connection has %q, %v", back, err)
	}
}

// KH6: connections end with the client and with the server, though neither side goes on.
func TestForwardEnds(t *testing.T) {
	for _, who := range []string{"server", "client"} {
		t.Run(who, func(t *testing.T) {
			rt := &forwarding{}
			r := newRig(t, rt)
			t.Run("client", func(t *testing.T) {
				address := forwarded(t, r, 90)
				for range 5 {
					conn, err := net.Dial("tcp", address)
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					if _, err := conn.Read(make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
				if who == "server" {
					if err := r.stop(); err != nil {
						t.Error(err)
					}
				}
			})
			if err := r.stop(); err != nil { // waits for what is left
				t.Error(err)
			}
			if n := rt.open.Load(); n > 0 {
				t.Errorf("%d connections are left", n)
			}
		})
	}
}

// portError opens a port over a WebSocket and returns what is said of it in its channel for errors.
func (r *rig) portError(path string) string {
	r.Helper()
	dialer := websocket.Dialer{
		TLSClientConfig: r.client().Transport.(*http.Transport).TLSClientConfig, Subprotocols: []string{"v4.channel.k8s.io"},
	}
	conn, response, err := dialer.DialContext(r.Context(), strings.Replace(r.address, "https", "wss", 1)+path, http.Header{"Authorization": {"Bearer good"}})
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Close()
	_ = response.Body.Close()
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			r.Error(err)
			return ""
		}
		if len(data) > 3 && data[0] == 1 { // what is shorter is the port's number
			return string(data[1:])
		}
	}
}

// portErrorSPDY opens port 80 over SPDY and returns what is said of it in its stream for errors.
func (r *rig) portErrorSPDY(path string) string {
	r.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(r.config())
	if err != nil {
		r.Fatal(err)
	}
	u, err := url.Parse(r.address + path)
	if err != nil {
		r.Fatal(err)
	}
	conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u).Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Close()
	header := http.Header{}
	header.Set(v1.PortHeader, "80")
	header.Set(v1.PortForwardRequestIDHeader, "1")
	header.Set(v1.StreamType, v1.StreamTypeError)
	failure, err := conn.CreateStream(header)
	if err != nil {
		r.Fatal(err)
	}
	header.Set(v1.StreamType, v1.StreamTypeData)
	if _, err := conn.CreateStream(header); err != nil {
		r.Fatal(err)
	}
	text, _ := io.ReadAll(failure)
	return string(text)
}

// KH4: a WebSocket has two channels per port, which begin with its number; a refused port is told in the second.
func TestForwardWebSocket(t *testing.T) {
	r := newRig(t, &forwarding{})
	dialer := websocket.Dialer{
		TLSClientConfig: r.client().Transport.(*http.Transport).TLSClientConfig, Subprotocols: []string{"v4.channel.k8s.io"},
	}
	header := http.Header{"Authorization": {"Bearer good"}}
	to := strings.Replace(r.address, "https", "wss", 1) + "/portForward/default/web"
	conn, response, err := dialer.DialContext(t.Context(), to+"?port=81&port=90", header)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = response.Body.Close()
	got := map[byte][]byte{}
	for !bytes.Contains(got[1], []byte("nothing listens there")) {
		_, data, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("%v after %q", err, got)
		}
		if len(data) > 0 {
			got[data[0]] = append(got[data[0]], data[1:]...)
		}
	}
	for channel, port := range map[byte]uint16{0: 81, 1: 81, 2: 90, 3: 90} {
		if data := got[channel]; len(data) < 2 || binary.LittleEndian.Uint16(data) != port {
			t.Errorf("channel %d began with %q, want port %d", channel, data, port)
		}
	}
	for _, query := range []string{"", "?port=", "?port=0", "?port=65536"} {
		conn, response, err := dialer.DialContext(t.Context(), to+query, header)
		if err == nil {
			_ = conn.Close()
			t.Errorf("%q was accepted", query)
			continue
		}
		if response == nil || response.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %v", query, err)
		}
	}
}
