package execstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Protocol is the WebSocket subprotocol that both ends speak.
const Protocol = "v5.channel.k8s.io"

// The first byte of a message is its channel.
const (
	stdin byte = iota
	stdout
	stderr
	status
	resize
	closed byte = 255 // the second byte is the channel that has ended
)

// maxMessage bounds one message; writers cut what is longer.
const maxMessage = 32 << 10

// The words of Kubernetes for the end of a command.
const (
	nonZeroExit = metav1.StatusReason("NonZeroExitCode")
	exitCode    = metav1.CauseType("ExitCode")
)

// sender sends messages on a connection, one at a time.
type sender struct {
	conn *websocket.Conn
	// turn is held while a message is sent.
	turn chan struct{}
	// within is how long the other end may take for a message that begins now; nil: no limit. A write that takes
	// longer breaks the connection for good.
	within func() time.Duration
}

func newSender(conn *websocket.Conn, within func() time.Duration) sender {
	return sender{conn: conn, turn: make(chan struct{}, 1), within: within}
}

// message sends a piece on a channel.
func (s sender) message(id byte, piece []byte) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.within != nil {
		if err := s.conn.SetWriteDeadline(time.Now().Add(s.within())); err != nil {
			return err
		}
	}
	w, err := s.conn.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return err
	}
	_, err = w.Write([]byte{id})
	if err == nil {
		_, err = w.Write(piece)
	}
	return errors.Join(err, w.Close())
}

// control sends a control message, which waits as long for the other end as data do.
func (s sender) control(kind int, text []byte) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.conn.WriteControl(kind, text, time.Now().Add(s.within()))
}

// release lets the command end once ctx has ended: the message that is being sent then has lastWords left.
func (s sender) release(ctx context.Context) {
	<-ctx.Done()
	late := time.NewTimer(lastWords)
	defer late.Stop()
	select {
	case s.turn <- struct{}{}:
		<-s.turn
	case <-late.C:
		_ = s.conn.Close() // ends the write
	}
}

// channel writes to one channel of a connection.
type channel struct {
	id byte
	sender
	// gone is called when a message could not be sent; nil means no call.
	gone func()
}

// Write implements [io.Writer].
func (c channel) Write(p []byte) (n int, err error) {
	for first := true; first || n < len(p); first = false {
		piece := p[n:min(n+maxMessage, len(p))]
		if err := c.message(c.id, piece); err != nil {
			if c.gone != nil {
				c.gone()
			}
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// Exit is a command's end with a code other than 0.
type Exit struct{ Code int }

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("the command ended with code %d", e.Code) }

// ExitStatus returns the code.
func (e Exit) ExitStatus() int { return e.Code }

// encodeEnd says how a command ended.
func encodeEnd(err error) []byte {
	end := metav1.Status{Status: metav1.StatusSuccess}
	var exit interface{ ExitStatus() int }
	switch {
	case err == nil:
	case errors.As(err, &exit):
		end = metav1.Status{
			Status: metav1.StatusFailure, Reason: nonZeroExit, Message: err.Error(),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: exitCode, Message: strconv.Itoa(exit.ExitStatus())}}},
		}
	default:
		end = metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError, Message: err.Error(),
		}
	}
	text, err := json.Marshal(end)
	if err != nil {
		return []byte(`{"status":"Failure"}`)
	}
	return text
}

// decodeEnd is the inverse of encodeEnd.
func decodeEnd(text []byte) error {
	var end metav1.Status
	if err := json.Unmarshal(text, &end); err != nil {
		return fmt.Errorf("how the command ended cannot be read: %w", err)
	}
	if end.Status == metav1.StatusSuccess {
		return nil
	}
	if end.Reason == nonZeroExit && end.Details != nil {
		for _, cause := range end.Details.Causes {
			if code, err := strconv.Atoi(cause.Message); err == nil && cause.Type == exitCode {
				return Exit{code}
			}
		}
	}
	if end.Message == "" {
		return errors.New("the command failed, for a reason that was not told")
	}
	return errors.New(end.Message)
}
