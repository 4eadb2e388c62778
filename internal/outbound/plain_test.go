package outbound_test

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	"github.com/podwright/podwright/internal/outbound"
)

// TestPlainErrorQuotesNoServer: errors keep what the node says, and lose what the server says.
func TestPlainErrorQuotesNoServer(t *testing.T) {
	for text, want := range map[string]string{
		`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug="secret"`: "the server closed the connection",
		`stream error: stream ID 1; PROTOCOL_ERROR; invalid header field name "Secret"`:                         "malformed HTTP response",
		`malformed MIME header: missing colon: "secret"`:                                                        "malformed HTTP response",
		`unsupported protocol scheme "secret"`:                                                                  "redirected to an unknown scheme",
		`net/http: invalid header field name "a b"`:                                                             `net/http: invalid header field name "a b"`,
		`stream error: stream ID 1; INTERNAL_ERROR; received from peer`:                                         "stream error: stream ID 1; INTERNAL_ERROR; received from peer",
	} {
		err := &url.Error{Op: "Get", URL: "http://127.0.0.1/?token=secret", Err: errors.New(text)}
		if got := outbound.Plain(err).Error(); got != want {
			t.Errorf("%s\n  became %s", text, got)
		}
	}
	broken := fmt.Errorf("http: transport connection broken: %w", io.ErrUnexpectedEOF)
	if got := outbound.Plain(broken); !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("an early end became %v", got)
	}
}
