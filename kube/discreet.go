package kube

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// maxFailure is how much of a failed answer is read; usually that is a few sentences.
const maxFailure = 64 << 10

// discreet removes a request's credentials from the answer if that reports a failure: what an API
// server, or a proxy in front of it, says ends up in logs, events and statuses (KZ1).
type discreet struct{ inner http.RoundTripper }

func beDiscreet(inner http.RoundTripper) http.RoundTripper { return discreet{inner} }

// RoundTrip implements [http.RoundTripper].
func (t discreet) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.inner.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusBadRequest {
		return response, err
	}
	_, credential, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if credential = strings.TrimSpace(credential); credential == "" {
		return response, nil
	}
	said, err := io.ReadAll(io.LimitReader(response.Body, maxFailure))
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	// The same length, because the answer may be in a binary format with length prefixes.
	said = bytes.ReplaceAll(said, []byte(credential), bytes.Repeat([]byte("*"), len(credential)))
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(said)), int64(len(said))
	return response, nil
}

// WrappedRoundTripper lets client-go find the inner transport, to close its connections.
func (t discreet) WrappedRoundTripper() http.RoundTripper { return t.inner }
