package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	server, client := net.Pipe()
	p <- server
	return client, nil
}

// TestStreamSaysWhyItEndsHoweverLate: an answer that fails after a long silence has its error, whether it had begun or not.
func TestStreamSaysWhyItEndsHoweverLate(t *testing.T) {
	for name, first := range map[string]string{"begun": "one\n", "not begun": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over, end := context.WithCancel(t.Context())
				defer end()
				a := &agent{over: over, streams: newSlots(1, "full"), log: slog.New(slog.DiscardHandler)}
				server := &http.Server{WriteTimeout: sendTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					a.stream(w, r, "text/plain", func(_ context.Context, out *streamWriter) error {
						if first != "" {
							if err := out.send([]byte(first)); err != nil {
								t.Error(err)
							}
						}
						<-time.After(time.Hour)
						return errors.New("the disk is broken")
					})
				})}
				listener := make(pipes)
				served := make(chan error)
				go func() { served <- server.Serve(listener) }()
				defer func() {
					_ = server.Close()
					<-served
				}()
				client := &http.Client{Transport: &http.Transport{DialContext: listener.dial, DisableKeepAlives: true}}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent/", nil)
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("TE", "trailers")
				response, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(response.Body)
				if err != nil {
					t.Errorf("%q, %v", text, err)
				}
				if all := string(text) + response.Trailer.Get(errorTrailer); !strings.HasPrefix(all, first) || !strings.Contains(all, "the disk is broken") {
					t.Errorf("%d, %q", response.StatusCode, all)
				}
				_ = response.Body.Close()
			})
		})
	}
}
