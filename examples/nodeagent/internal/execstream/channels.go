package execstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
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

// channel writes to one channel of a connection. The channels of a connection share its lock.
type channel struct {
	id   byte
	conn *websocket.Conn
	mu   *sync.Mutex
	// within is how long the other end may take for a message; 0: no limit.
	within time.Duration
	// gone is called when a message could not be sent; nil means no call.
	gone func()
}

// Write implements [io.Writer].
func (c channel) Write(p []byte) (n int, err error) {
	for first := true; first || n < len(p); first = false {
		piece := p[n:min(n+maxMessage, len(p))]
		if err := c.message(piece); err != nil {
			if c.gone != nil {
				c.gone()
			}
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

func (c channel) message(piece []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.within > 0 {
		if err := c.conn.SetWriteDeadline(time.Now().Add(c.within)); err != nil {
			return err
		}
	}
	w, err := c.conn.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return err
	}
	_, err = w.Write([]byte{c.id})
	if err == nil {
		_, err = w.Write(piece)
	}
	return errors.Join(err, w.Close())
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
