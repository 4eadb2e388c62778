package outbound

import (
	"errors"
	"io"
	"net/url"
	"strings"
)

// What replaces errors in which the transport quotes the server.
var (
	errMalformed = errors.New("malformed HTTP response")
	errClosed    = errors.New("the server closed the connection")
	errScheme    = errors.New("redirected to an unknown scheme")
)

// Plain returns the error of an HTTP client as everyone may see it: without the URL, whose query
// may hold secrets, and without what the transport quotes of the server, such as the greeting of
// some other service, or what it says when it closes an HTTP/2 connection (spec/probe.md 5.6).
func Plain(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("GOAWAY"):
		return errClosed
	case has("unsupported protocol scheme"):
		return errScheme
	case has("transport connection broken") && !errors.Is(err, io.ErrUnexpectedEOF),
		has("malformed"), has("failed to parse Location"),
		has("stream error") && has("header"): // names of header fields
		return errMalformed
	}
	return err
}
