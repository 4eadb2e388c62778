package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// maxPending bounds the connections of which a client has opened only one of the two streams.
const maxPending = 100

// errLeft says that the client has closed the connection that its streams belong to.
var errLeft = errors.New("the client has gone")

// forwarder connects the streams of one client to ports.
type forwarder struct {
	ctx     context.Context
	pod     *v1.Pod
	forward func(ctx context.Context, port int32, conn io.ReadWriter) error
	opened  chan struct{}         // closed once conn is set
	conn    httpstream.Connection // over SPDY

	mu      sync.Mutex
	left    bool
	pending map[string]map[string]incoming // by request ID and type of stream
	work    sync.WaitGroup
}

// incoming is a stream that the client has opened; it must not be written to before the answer was sent.
type incoming struct {
	httpstream.Stream
	answered <-chan struct{}
}

func newForwarder(ctx context.Context, pod *v1.Pod, forward func(ctx context.Context, port int32, conn io.ReadWriter) error) *forwarder {
	return &forwarder{ctx: ctx, pod: pod, forward: forward, opened: make(chan struct{}), pending: map[string]map[string]incoming{}}
}

// PortForward implements portforward.PortForwarder, whose context belongs to no client.
func (f *forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	f.mu.Lock()
	if f.left {
		f.mu.Unlock()
		return errLeft
	}
	f.work.Add(1)
	f.mu.Unlock()
	defer f.work.Done()
	return f.forward(f.ctx, port, stream)
}

// leave admits no more connections and waits for the existing ones.
func (f *forwarder) leave() {
	f.mu.Lock()
	f.left = true
	f.mu.Unlock()
	f.work.Wait()
}

// serveSPDY serves streams until the client has gone. Package portforward would leave goroutines behind: it writes
// to streams of a departed client before they were answered, and passes on streams that nothing receives any more.
func (f *forwarder) serveSPDY(w http.ResponseWriter, r *http.Request, idle time.Duration) {
	if _, err := httpstream.Handshake(r, w, portforward.SupportedProtocols); err != nil {
		return // Handshake has answered the client
	}
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, f.accept)
	if conn == nil {
		return
	}
	defer conn.Close()
	conn.SetIdleTimeout(idle)
	f.conn = conn
	close(f.opened)
	select {
	case <-conn.CloseChan():
	case <-f.ctx.Done():
	}
}

// accept takes a stream. Two of them, for data and for errors, make a connection.
func (f *forwarder) accept(stream httpstream.Stream, answered <-chan struct{}) error {
	header := stream.Headers()
	port, err := strconv.ParseUint(header.Get(portforward.PortHeader), 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("%q is not a port", header.Get(portforward.PortHeader))
	}
	id, kind := header.Get(portforward.PortForwardRequestIDHeader), header.Get(portforward.StreamType)
	if kind != portforward.StreamTypeData && kind != portforward.StreamTypeError || id == "" {
		return fmt.Errorf("stream of type %q with request ID %q: each connection needs an ID and a stream of the types data and error", kind, id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	streams := f.pending[id]
	switch _, known := streams[kind]; {
	case f.left:
		return errLeft
	case known:
		return fmt.Errorf("connection %q has a second stream of type %s", id, kind)
	case streams == nil && len(f.pending) >= maxPending:
		return fmt.Errorf("%d connections wait for their second stream already", maxPending)
	case streams == nil:
		f.pending[id] = map[string]incoming{kind: {stream, answered}}
		return nil
	}
	streams[kind] = incoming{stream, answered}
	delete(f.pending, id)
	f.work.Go(func() {
		f.connect(streams[portforward.StreamTypeData], streams[portforward.StreamTypeError], int32(port))
	})
	return nil
}

// connect serves one connection and reports its failure to the client, unless the client has gone.
func (f *forwarder) connect(data, failure incoming, port int32) {
	for _, ready := range []<-chan struct{}{f.opened, data.answered, failure.answered} {
		select {
		case <-ready:
		case <-f.ctx.Done():
			return
		}
	}
	err := f.forward(f.ctx, port, data)
	if f.ctx.Err() != nil {
		return
	}
	defer f.conn.RemoveStreams(data.Stream, failure.Stream)
	if err != nil {
		_, _ = fmt.Fprintf(failure, "error forwarding port %d to pod %s, uid %s: %v", port, f.pod.Name, f.pod.UID, err)
		_ = data.Reset()
	} else {
		_ = data.Close()
		// Tells the client nothing more, and drops what it still sends: unread, that would hold up all its connections.
		_ = data.Reset()
	}
	_ = failure.Close()
}
