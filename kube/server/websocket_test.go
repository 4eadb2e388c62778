package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// KH4, KH5: a WebSocket may have every protocol of the kubelet's, or none: input, sizes, outputs and the end of the
// command arrive in each. Before v4 the text of an error is all that is said of the end.
func TestProtocolsOfWebSockets(t *testing.T) {
	rt := &direct{exec: func(_ context.Context, _ string, cmd []string, s cri.Streams) error {
		input := make([]byte, 2)
		if _, err := io.ReadFull(s.Stdin, input); err != nil {
			return err
		}
		size := <-s.Resize
		if _, err := fmt.Fprintf(s.Stdout, "%s %dx%d", input, size.Width, size.Height); err != nil || cmd[0] == "succeed" {
			return err
		}
		return fmt.Errorf("it failed: %w", &runtime.ExitError{Code: 7})
	}}
	const text = "command terminated with non-zero exit code: it failed"
	for protocol, want := range map[string]struct {
		text            bool
		failed, success string // the beginnings of what is said of the end
	}{
		"v5.channel.k8s.io":        {false, `{"metadata":{},"status":"Failure","message":"` + text, `{"metadata":{},"status":"Success"`},
		"v4.channel.k8s.io":        {false, `{"metadata":{},"status":"Failure","message":"` + text, `{"metadata":{},"status":"Success"`},
		"v4.base64.channel.k8s.io": {true, `{"metadata":{},"status":"Failure","message":"` + text, `{"metadata":{},"status":"Success"`},
		"channel.k8s.io":           {false, text, ""},
		"base64.channel.k8s.io":    {true, text, ""},
		"":                         {false, text, ""},
	} {
		t.Run(protocol, func(t *testing.T) {
			r := newRig(t, rt)
			var offered []string
			if protocol != "" {
				offered = []string{protocol}
			}
			for command, end := range map[string]string{"fail": want.failed, "succeed": want.success} {
				conn := r.openedAs("/exec/default/web/app?input=1&output=1&tty=1&command="+command, offered...)
				if conn.Subprotocol() != protocol {
					t.Errorf("the protocol is %q", conn.Subprotocol())
				}
				say(t, conn, want.text, resizeChannel, `{"Width":80,"Height":25}`)
				say(t, conn, want.text, stdinChannel, "hi")
				got := heard(t, conn, want.text)
				if got[stdoutChannel] != "hi 80x25" || !strings.HasPrefix(got[errorChannel], end) || end == "" && got[errorChannel] != "" {
					t.Errorf("%s: %q", command, got)
				}
			}
		})
	}
}

// say sends a message on a channel.
func say(t *testing.T, conn *websocket.Conn, text bool, channel byte, message string) {
	t.Helper()
	kind, data := websocket.BinaryMessage, append([]byte{channel}, message...)
	if text {
		kind, data = websocket.TextMessage, []byte(string('0'+channel)+base64.StdEncoding.EncodeToString([]byte(message)))
	}
	if err := conn.WriteMessage(kind, data); err != nil {
		t.Fatal(err)
	}
}

// heard returns what is said on each channel until the connection ends.
func heard(t *testing.T, conn *websocket.Conn, text bool) map[byte]string {
	t.Helper()
	got := map[byte]string{}
	for {
		kind, data, err := conn.ReadMessage()
		if err != nil {
			return got
		}
		if len(data) == 0 || (kind == websocket.TextMessage) != text {
			t.Errorf("a message of kind %d: %q", kind, data)
			continue
		}
		channel, message := data[0], data[1:]
		if text {
			channel -= '0'
			if message, err = base64.StdEncoding.AppendDecode(nil, message); err != nil {
				t.Error(err)
			}
		}
		got[channel] += string(message)
	}
}
