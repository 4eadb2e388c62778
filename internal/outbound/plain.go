package outbound

import (
	"errors"
	"io"
	"net/url"
	"strings"
)

// errMalformed replaces what the transport quotes.
var errMalformed = errors.New("malformed HTTP response")

// Plain returns the error of an HTTP client as everyone may see it: without the URL, whose query
// may hold secrets, and without what the transport quotes of an answer that is not HTTP, such as
// the greeting of some other service (spec/probe.md 5.6).
func Plain(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	broken := strings.Contains(text, "transport connection broken") && !errors.Is(err, io.ErrUnexpectedEOF)
	if broken || strings.Contains(text, "malformed") || strings.Contains(text, "failed to parse Location") {
		return errMalformed
	}
	return err
}
