package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// How long a client may occupy resources of the server (KH9).
const (
	// pieceTimeout is how long a client may take to read a piece, of at most pieceSize bytes, of an
	// answer that is finite.
	pieceTimeout = 30 * time.Second
	pieceSize    = 16 << 10
	// scrapeTimeout is how long it may take for a page of which only a few are made at once, at whatever pace.
	scrapeTimeout = 2 * time.Minute
	// farewell is how long the connection of an ended stream stays open for what the client has not read.
	farewell = 10 * time.Second
	// bodyTimeout and maxBody bound the body of a request, which is ignored.
	bodyTimeout = 10 * time.Second
	maxBody     = 64 << 10
	// streamIdle ends any stream and followed log of which the client reads nothing for this long, and a stream that the
	// server itself serves if nothing passes on its connection. A client that is there keeps an exec or attach open,
	// however silent the command is: heartbeats pass over a WebSocket, and the client's pings over SPDY.
	streamIdle = 4 * time.Hour
)

// patient answers with next, and limits the time that clients have to send and to read.
func (s *Server) patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		over := r.Context().Done()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		a := &answer{
			ResponseWriter: w, control: http.NewResponseController(w), clock: s.options.Clock,
			piece: pieceTimeout, idle: streamIdle, over: over, end: cancel,
		}
		a.renew()
		defer a.leave()
		if code := a.skipBody(r); code != 0 {
			w.Header().Set("Connection", "close")
			http.Error(a, http.StatusText(code), code)
			return
		}
		r = r.WithContext(ctx)
		r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
		next.ServeHTTP(a, r)
	})
}

// answer writes the answer to a request, and gives its client a limited time for each piece. A
// writer of an embedder's own server that does not support deadlines has that server's.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	clock   clock.PassiveClock
	// piece is how long the client may take for a piece, idle how long it may leave a stream unread.
	piece, idle time.Duration
	// whole is how long the client may take for all pieces, until due; 0 means no limit.
	whole time.Duration
	due   time.Time // zero until the first piece
	over  <-chan struct{}
	// end ends the request.
	end    context.CancelFunc
	stream *streamConn // nil unless the connection has become one
}

// scrape bounds the time that the client has for the whole answer.
func scrape(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a, ok := w.(*answer); ok {
			a.whole = scrapeTimeout
		}
		next(w, r)
	}
}

// lasting gives the client of an answer without an end as much time per piece as for a stream.
func lasting(w http.ResponseWriter) {
	if a, ok := w.(*answer); ok {
		a.piece = a.idle
	}
}

// skipBody reads the body of a request. It returns an error's status code if that is too large or fails.
func (a *answer) skipBody(r *http.Request) int {
	if r.Body == nil || r.Body == http.NoBody {
		return 0
	}
	_ = a.control.SetReadDeadline(a.clock.Now().Add(bodyTimeout))
	_, err := io.Copy(io.Discard, http.MaxBytesReader(a.ResponseWriter, r.Body, maxBody))
	if err == nil {
		_ = a.control.SetReadDeadline(time.Time{})
		return 0
	}
	// The deadline stays: net/http reads on before it closes the connection.
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}

// renew gives the client time for the next piece, unless the server ends.
func (a *answer) renew() {
	select {
	case <-a.over:
		return
	default:
	}
	if a.stream != nil {
		return
	}
	deadline := a.clock.Now().Add(a.piece)
	if !a.due.IsZero() && a.due.Before(deadline) {
		deadline = a.due
	}
	_ = a.control.SetWriteDeadline(deadline)
}

// leave is called after the request: net/http may still write the last piece, or a reader use the stream.
func (a *answer) leave() {
	if a.stream != nil {
		a.stream.leave()
	}
	a.renew()
}

// begin is called before each piece.
func (a *answer) begin() {
	if a.whole > 0 && a.due.IsZero() {
		a.due = a.clock.Now().Add(a.whole)
	}
	a.renew()
}

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(code int) {
	a.begin()
	a.ResponseWriter.WriteHeader(code)
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (n int, err error) {
	return inPieces(p, a.begin, a.ResponseWriter.Write)
}

// FlushError implements flushing for [http.ResponseController].
func (a *answer) FlushError() error {
	a.begin()
	return a.control.Flush()
}

// Unwrap gives [http.ResponseController] the inner writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Hijack implements [http.Hijacker]: the connection becomes a stream.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := a.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := io.ReadAll(io.LimitReader(buffer, int64(buffer.Reader.Buffered())))
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	a.stream = &streamConn{Conn: conn, clock: a.clock, idle: a.idle, over: a.over, end: a.end, early: early}
	return a.stream, bufio.NewReadWriter(bufio.NewReader(a.stream), bufio.NewWriter(a.stream)), nil
}

// inPieces writes p in pieces, and calls begin before each.
func inPieces(p []byte, begin func(), write func([]byte) (int, error)) (n int, err error) {
	if len(p) == 0 {
		begin()
		return write(p)
	}
	for piece := range slices.Chunk(p, pieceSize) {
		begin()
		m, err := write(piece)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}
