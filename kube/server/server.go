package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime/cri"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// closeGrace is how long streams have to finish when the server ends.
	closeGrace = 500 * time.Millisecond
)

// Server answers requests about the pods of a node. Make one with [New]; it is safe for concurrent use.
type Server struct {
	options Options
	access  *access
	handler http.Handler
	streams streams
}

// New returns a server, or everything that is wrong with the options. It starts nothing.
func New(options Options) (*Server, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("server of the node: %w", err)
	}
	s := &Server{options: options}
	s.access = newAccess(&s.options)
	s.streams = streams{
		engine: options.Engine, runtime: options.Runtime, dial: dialer().DialContext, idle: streamIdle, clock: options.Clock, log: options.Logger,
	}
	s.streams.urls, _ = options.Runtime.(cri.Streamer)
	s.streams.direct, _ = options.Runtime.(cri.DirectStreamer)
	s.streams.ports, _ = options.Runtime.(cri.DirectForwarder)
	s.handler = s.patient(s.access.guard(s.routes()))
	return s, nil
}

// routes maps paths to handlers. A page without a source in the options is 404.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /pods", s.pods)
	if s.options.Metrics != nil {
		mux.HandleFunc("GET /metrics", s.metricPage(false))
		mux.HandleFunc("GET /metrics/probes", s.metricPage(true))
	}
	if stats := s.options.Stats; stats != nil {
		mux.HandleFunc("GET /stats/summary", s.statsPage(stats.ServeSummary))
		mux.HandleFunc("GET /metrics/resource", s.statsPage(stats.ServeResource))
		mux.HandleFunc("GET /metrics/cadvisor", s.statsPage(stats.ServeContainers))
	}
	if s.options.Config != nil {
		mux.HandleFunc("GET /configz", s.configz)
	}
	if s.options.CheckpointDir != "" {
		c := &checkpoints{engine: s.options.Engine, dir: s.options.CheckpointDir, now: s.options.Clock.Now, log: s.options.Logger, turn: make(chan struct{}, 1)}
		c.runtime, _ = s.options.Runtime.(cri.Checkpointer)
		c.clear()
		mux.HandleFunc("POST /checkpoint/{namespace}/{pod}/{container}", c.handle)
	}
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	for _, method := range []string{"GET ", "POST "} {
		for _, pod := range []string{"{namespace}/{pod}", "{namespace}/{pod}/{uid}"} {
			mux.HandleFunc(method+"/exec/"+pod+"/{container}", s.streams.exec)
			mux.HandleFunc(method+"/attach/"+pod+"/{container}", s.streams.attach)
			mux.HandleFunc(method+"/portForward/"+pod, s.streams.portForward)
		}
	}
	return mux
}

// Handler returns the handler of all requests, for an embedder's own server. It refuses requests
// that did not come over TLS, and needs the client's certificates unverified
// (tls.RequestClientCert). Streams end with the context of their request.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers the connections of l over TLS until ctx ends; then it closes l and all
// connections and returns nil once the last request has ended. Any other end is an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connections := limited(l)
	// Requests hold it for reading; holding it for writing means that no request is left.
	var gate sync.RWMutex
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !gate.TryRLock() {
				http.Error(w, "the server ends", http.StatusServiceUnavailable)
				return
			}
			defer gate.RUnlock()
			s.handler.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       connectionContext,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		WriteTimeout: pieceTimeout, // for answers of net/http itself; answer renews it
		ErrorLog:     log.New(errorLog{s.options.Logger}, "", 0),
		ConnState:    connections.changed,
	}
	served := make(chan error, 1)
	// One connection per stream, so that a client that does not read delays no other.
	listener := tls.NewListener(connections, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: s.options.Certificate, ClientAuth: tls.RequestClientCert,
	})
	go func() { served <- server.Serve(listener) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		_ = server.Close()
		if err = <-served; errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
	}
	cancel()
	_ = server.Close()
	connections.interrupt()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		gate.Lock()
		defer gate.Unlock()
	}()
	timer := s.options.Clock.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C():
	}
	connections.closeAll()
	<-ended
	connections.served.Wait()
	if err != nil {
		return fmt.Errorf("server of the node: %w", err)
	}
	return nil
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := s.options.Engine.Healthy(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("ok"))
}

// pods lists the pods of the node.
func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: s.options.Engine.Pods()}
	writeJSON(w, &list)
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
