package execstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/podwright/podwright/runtime/cri"
)

// pingPeriod is how often the server checks that its client is there, even while the command does not read.
const pingPeriod = 5 * time.Second

// lastWords is how long a client may take to read the end.
const lastWords = 2 * time.Second

// unread is how long a client may leave a command's output unread, because of a pause for example,
// before it counts as gone.
const unread = 4 * time.Hour

// Wants is what the client asked for.
type Wants struct{ Stdin, TTY bool }

// Serve runs a command for the client and closes the connection. It returns once the command and
// every goroutine it started have ended. A command that ends only because ctx does has no end that the client is told.
func Serve(ctx context.Context, conn *websocket.Conn, wants Wants, run func(ctx context.Context, s cri.Streams) error) {
	over := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	input, feed := io.Pipe()
	sizes := make(chan cri.TerminalSize)
	to := func(id byte) channel { return channel{id: id, conn: conn, mu: &mu, within: unread, gone: cancel} }
	streams := cri.Streams{TTY: wants.TTY, Stdout: to(stdout)}
	if wants.Stdin {
		streams.Stdin = input
	}
	if wants.TTY {
		streams.Resize = sizes
	} else {
		streams.Stderr = to(stderr)
	}
	conn.SetReadLimit(maxMessage + 1)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		receive(ctx, conn, feed, sizes, wants)
		cancel() // the client is gone
	})
	helpers.Go(func() { ping(ctx, conn, cancel) })
	// Once ctx ends, a write that the client does not read fails soon, so that the command can end.
	defer context.AfterFunc(ctx, func() { _ = conn.NetConn().SetWriteDeadline(time.Now().Add(lastWords)) })()
	end := run(ctx, streams)
	_ = input.CloseWithError(io.ErrClosedPipe) // releases a write that the command did not read
	// If over has ended, a command that was cancelled has no end of its own.
	if over.Err() == nil || !errors.Is(end, context.Canceled) {
		_, _ = channel{id: status, conn: conn, mu: &mu, within: lastWords}.Write(encodeEnd(end))
	}
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(lastWords))
	cancel()
	_ = conn.Close()
	helpers.Wait()
}

// receive passes on what the client sends until the connection or ctx ends.
func receive(ctx context.Context, conn *websocket.Conn, feed *io.PipeWriter, sizes chan<- cri.TerminalSize, wants Wants) {
	defer close(sizes)
	defer feed.Close()
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if len(message) == 0 {
			continue
		}
		switch id, content := message[0], message[1:]; id {
		case stdin:
			if wants.Stdin {
				_, _ = feed.Write(content) // lost if the command no longer reads
			}
		case closed:
			if bytes.Equal(content, []byte{stdin}) {
				_ = feed.Close() // never fails
			}
		case resize:
			var size cri.TerminalSize
			if json.Unmarshal(content, &size) != nil || !wants.TTY {
				continue
			}
			select {
			case sizes <- size:
			case <-ctx.Done():
				return
			}
		}
	}
}

// ping ends ctx when the client is gone. A client that merely does not read still counts as present.
func ping(ctx context.Context, conn *websocket.Conn, gone context.CancelFunc) {
	tick := time.NewTicker(pingPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))
		if timeout, ok := err.(net.Error); err != nil && (!ok || !timeout.Timeout()) {
			gone()
			return
		}
	}
}
