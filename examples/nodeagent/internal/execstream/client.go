package execstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/podwright/podwright/runtime/cri"
)

// ErrCutOff says that the connection ended before the command did: the server has ended, or has given up a client that
// read nothing.
var ErrCutOff = errors.New("how the command ended is not known, as the connection did")

// Run is the client's end: it carries streams until the command ends, and closes the connection. An
// [Exit] is the command's; any other error says that the command did not run, or with [ErrCutOff] that its end is
// not known. Stdin may still be read from when Run returns.
func Run(ctx context.Context, conn *websocket.Conn, s cri.Streams) error {
	done := make(chan struct{})
	var sizing sync.WaitGroup
	defer sizing.Wait()
	defer conn.Close() // ends a size that the server does not read
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer close(done)
	conn.SetReadLimit(1 << 20)
	// The server checks only that it can send. Answers would fill the connection of a command that does not read its
	// input, and one that times out breaks it: later input would be lost.
	conn.SetPingHandler(func(string) error { return nil })
	out := newSender(conn, nil)
	if s.Stdin != nil {
		go send(out, s.Stdin) // reading may continue after Run returns, as of a terminal
	}
	if s.Resize != nil {
		sizing.Go(func() { sendSizes(out, s.Resize, done) })
	}
	for {
		_, message, err := conn.ReadMessage()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCutOff, err)
		}
		if len(message) == 0 {
			continue
		}
		if message[0] == status {
			return decodeEnd(message[1:])
		}
		if err := deliver(s, message); err != nil {
			return err
		}
	}
}

// deliver writes output to the stream of its channel.
func deliver(s cri.Streams, message []byte) error {
	to := map[byte]io.Writer{stdout: s.Stdout, stderr: s.Stderr}[message[0]]
	if to == nil {
		return nil
	}
	_, err := to.Write(message[1:])
	return err
}

// send sends stdin and its end.
func send(out sender, from io.Reader) {
	if _, err := io.Copy(channel{id: stdin, sender: out}, from); err == nil { // Run notices the connection's end by reading
		_ = out.message(closed, []byte{stdin})
	}
}

func sendSizes(out sender, from <-chan cri.TerminalSize, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case size, ok := <-from:
			if !ok {
				return
			}
			text, err := json.Marshal(size)
			if err != nil {
				return
			}
			if out.message(resize, text) != nil {
				return
			}
		}
	}
}
