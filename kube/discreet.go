package kube

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// maxFailure is how much of a failed answer is read, which is a sentence or a few.
const maxFailure = 64 << 10

// discreet takes the credentials of a request out of an answer that says that it failed: what an
// API server, or a proxy before it, says becomes part of logs, events and statuses (KZ1).
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
	// The same length, because the answer may be in a binary form that counts its parts.
	said = bytes.ReplaceAll(said, []byte(credential), bytes.Repeat([]byte("*"), len(credential)))
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(said)), int64(len(said))
	return response, nil
}

// WrappedRoundTripper is how client-go finds what is inside, to close its connections.
func (t discreet) WrappedRoundTripper() http.RoundTripper { return t.inner }
