package execstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/podwright/podwright/runtime/cri"
)

// pingPeriod is how often the server checks that its client is there, even while the command does not read.
const pingPeriod = 5 * time.Second

// lastWords is how long a client may take to read a message once the server ends.
const lastWords = 2 * time.Second

// unread is how long a client may leave a command's output or its end unread, because of a pause for example,
// before it counts as gone.
const unread = 4 * time.Hour

// Wants is what the client asked for.
type Wants struct{ Stdin, TTY bool }

// Serve runs a command for the client and closes the connection. It returns once the command and
// every goroutine it started have ended, and the client has read how the command ended, has gone, or counts as gone.
// A command that ends only because ctx does has no end that the client is told.
func Serve(ctx context.Context, conn *websocket.Conn, wants Wants, run func(ctx context.Context, s cri.Streams) error) {
	over := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := newSender(conn, func() time.Duration {
		if ctx.Err() != nil {
			return lastWords
		}
		return unread
	})
	input, feed := io.Pipe()
	in := inbox{feed: feed, sizes: make(chan cri.TerminalSize, 1), pings: make(chan string, 1)}
	to := func(id byte) channel { return channel{id: id, sender: out, gone: cancel} }
	streams := cri.Streams{TTY: wants.TTY, Stdout: to(stdout)}
	if wants.Stdin {
		streams.Stdin = input
	}
	if wants.TTY {
		streams.Resize = in.sizes
	} else {
		streams.Stderr = to(stderr)
	}
	var helpers sync.WaitGroup
	helpers.Go(func() {
		in.receive(conn, wants)
		cancel() // the client is gone
	})
	helpers.Go(func() { ping(ctx, out, in.pings, cancel) })
	helpers.Go(func() { out.release(ctx) })
	end := run(ctx, streams)
	_ = input.CloseWithError(io.ErrClosedPipe) // releases a write that the command did not read
	// If over has ended, a command that was cancelled has no end of its own.
	if over.Err() == nil || !errors.Is(end, context.Canceled) {
		_, _ = to(status).Write(encodeEnd(end))
	}
	farewell(ctx, out)
	cancel()
	_ = conn.Close()
	helpers.Wait()
}

// farewell waits, until ctx ends, for a client that has not read everything: over TCP, the kernel forgets soon what a closed
// connection still has to deliver. The client leaves once it has read the end.
func farewell(ctx context.Context, out sender) {
	if out.control(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")) != nil {
		return
	}
	late := time.NewTimer(unread)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-late.C:
	}
}

// inbox is where what a client sends goes.
type inbox struct {
	feed  *io.PipeWriter
	sizes chan cri.TerminalSize // has room for the newest
	pings chan string           // the client's, which are to be answered
}

// receive passes on what the client sends until the connection ends.
func (i inbox) receive(conn *websocket.Conn, wants Wants) {
	defer close(i.sizes)
	defer i.feed.Close()
	conn.SetReadLimit(maxMessage + 1)
	conn.SetPingHandler(func(text string) error {
		select {
		case i.pings <- text:
		default: // one answer is enough for several
		}
		return nil
	})
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
				_, _ = i.feed.Write(content) // lost if the command no longer reads
			}
		case closed:
			if bytes.Equal(content, []byte{stdin}) {
				_ = i.feed.Close() // never fails
			}
		case resize:
			var size cri.TerminalSize
			if json.Unmarshal(content, &size) != nil || !wants.TTY {
				continue
			}
			select {
			case <-i.sizes: // one that was not taken; the command need not take any
			default:
			}
			i.sizes <- size
		}
	}
}

// ping calls gone when the client is, and answers the client's own pings. A client that merely does not read still
// counts as present: what it leaves unread for too long is for it like data.
func ping(ctx context.Context, out sender, asked <-chan string, gone context.CancelFunc) {
	tick := time.NewTicker(pingPeriod)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-tick.C:
			err = out.control(websocket.PingMessage, nil)
		case text := <-asked:
			err = out.control(websocket.PongMessage, []byte(text))
		case <-ctx.Done():
			return
		}
		if errors.Is(err, websocket.ErrCloseSent) { // everything was sent: receive notices that the client has gone
			return
		}
		if err != nil {
			gone()
			return
		}
	}
}
