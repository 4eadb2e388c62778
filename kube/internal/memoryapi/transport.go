package memoryapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Transport returns a user's transport to the server, for a rest.Config: the user is a node, by its
// name, or, if the name is empty, an administrator. A watch has a goroutine, which ends with the
// context of its request, or when its body is closed.
func (s *Server) Transport(node string) http.RoundTripper { return transport{s, node} }

type transport struct {
	server *Server
	user   string
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if r.URL.Query().Get("watch") != "" {
		return t.watch(r), nil
	}
	code, object, err := t.server.request(t.user, r)
	if err != nil {
		return failure(r, err), nil
	}
	var body []byte
	if target, _ := targetOf(r.URL.Path); object.GetObjectKind().GroupVersionKind().Kind == "" {
		body = encode(object, target.kind)
	} else if body, err = json.Marshal(object); err != nil {
		return nil, err
	}
	return answer(r, code, io.NopCloser(bytes.NewReader(body))), nil
}

// watch returns when the first event is about to be sent, or the watch was refused.
func (t transport) watch(r *http.Request) *http.Response {
	ctx, cancel := context.WithCancel(r.Context())
	read, write := io.Pipe()
	opened := make(chan error, 1)
	go func() {
		defer cancel()
		err := t.server.watch(ctx, r, func() io.Writer {
			opened <- nil
			context.AfterFunc(ctx, func() { _ = write.CloseWithError(ctx.Err()) }) // also ends a blocked write
			return write
		})
		_ = write.Close()
		if err != nil {
			opened <- err
		}
	}()
	if err := <-opened; err != nil {
		return failure(r, err)
	}
	return answer(r, http.StatusOK, body{read, cancel})
}

// body carries the events of a watch.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements [io.Closer].
func (b body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

func answer(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1,
	}
}

// failure returns the answer that reports an error.
func failure(r *http.Request, err error) *http.Response {
	status := apierrors.NewInternalError(err).ErrStatus
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	text, err := json.Marshal(status)
	if err != nil {
		panic(err) // marshalling a status never fails
	}
	return answer(r, int(status.Code), io.NopCloser(bytes.NewReader(text)))
}
