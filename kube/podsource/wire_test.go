package podsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// wire is an API server on the other end of HTTP connections in memory, for what a fake
// client cannot say.
type wire struct {
	mu      sync.Mutex
	streams bool // it streams lists
	pods    []string
	// fault answers in its stead; it returns whether it has.
	fault func(w http.ResponseWriter, watches bool) bool
	asked []time.Time
	// next are lines for the watch that is open.
	next chan string
}

// serve answers on connections in memory until the test ends.
func (s *wire) serve(t *testing.T) kubernetes.Interface {
	t.Helper()
	s.next = make(chan string)
	calls := pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(calls) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		calls.conns <- far
		return near, nil
	}}
	t.Cleanup(func() { transport.CloseIdleConnections(); _ = server.Close(); <-done })
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", Transport: transport})
}

func (s *wire) set(change func(s *wire)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// requests returns when it was asked since the last call.
func (s *wire) requests() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// ServeHTTP implements [http.Handler].
func (s *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	watches, streamed := query.Get("watch") != "", query.Get("sendInitialEvents") == "true"
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	pods, streams, fault := s.pods, s.streams, s.fault
	s.mu.Unlock()
	switch {
	case fault != nil && fault(w, watches):
	case query.Get("fieldSelector") != "spec.nodeName=edge-1" || r.URL.Path != "/api/v1/pods":
		http.Error(w, "not the pods of this node: "+r.URL.String(), http.StatusForbidden)
	case !watches:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"100"},"items":[%s]}`, strings.Join(pods, ","))
	case streamed && !streams:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		if streamed {
			for _, p := range pods {
				fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", p)
			}
			fmt.Fprint(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"100","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
		}
		s.watch(w, r)
	}
}

func (s *wire) watch(w http.ResponseWriter, r *http.Request) {
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case line := <-s.next:
			fmt.Fprintln(w, line)
		case <-r.Context().Done():
			return
		}
	}
}

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// object is a pod as it is on the wire.
func object(p v1.Pod) string {
	p.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// broken is a pod that does not decode.
const broken = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"default","uid":"9"},"spec":{"containers":"none"}}`

// refuse answers with a code and, if it is not "", with Retry-After.
func refuse(code int, retryAfter string) func(http.ResponseWriter, bool) bool {
	return func(w http.ResponseWriter, _ bool) bool {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(code)
		return true
	}
}

// logs returns the number of lines that a logger has taken, and the logger.
func logs(o *Options) (lines func() int) {
	var mu sync.Mutex
	var n int
	o.Logger = funcr.New(func(string, string) { mu.Lock(); n++; mu.Unlock() }, funcr.Options{})
	return func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// TestStreamedAndPlainLists (KS3): an API server that streams lists is asked once; one that
// does not is asked for a list. Both give the same set, and events follow.
func TestStreamedAndPlainLists(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("streams=%t", streams), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &wire{streams: streams, pods: []string{object(pod("a", "1", "90")), object(pod("b", "2", "91"))}}
				_, got, _ := runOn(t, s.serve(t), nil)
				after(5 * time.Second)
				want(t, "the list", got, "a=1 b=2")
				if n := len(s.requests()); n != map[bool]int{true: 1, false: 3}[streams] {
					t.Errorf("%d requests", n)
				}
				large := pod("large", "3", "101")
				large.Annotations = map[string]string{"text": strings.Repeat("x", 1<<20)}
				s.next <- `{"type":"ADDED","object":` + object(large) + `}`
				synctest.Wait()
				want(t, "an object of 1 MiB", got, "a=1 b=2 large=3")
			})
		})
	}
}

// TestBadAnswers (KS4): whatever an API server answers in place of pods, the set
// stays, it is asked at most every 30 s, where client-go itself repeats a request up to
// ten times, a second apart, Health tells why, and nothing is logged over
// and over. Once it is well its list counts.
func TestBadAnswers(t *testing.T) {
	good := object(pod("a", "1", "90"))
	watchSays := func(text string) func(http.ResponseWriter, bool) bool {
		return func(w http.ResponseWriter, watches bool) bool {
			if watches {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, text)
			}
			return watches
		}
	}
	for name, fault := range map[string]func(http.ResponseWriter, bool) bool{
		"500":                      refuse(http.StatusInternalServerError, ""),
		"500, try again in 3 s":    refuse(http.StatusInternalServerError, "3"),
		"429, try again in 1 s":    refuse(http.StatusTooManyRequests, "1"),
		"429, try again in a day":  refuse(http.StatusTooManyRequests, "86400"),
		"429":                      refuse(http.StatusTooManyRequests, ""),
		"403":                      refuse(http.StatusForbidden, ""),
		"410":                      refuse(http.StatusGone, ""),
		"504":                      refuse(http.StatusGatewayTimeout, ""),
		"a page of a proxy":        func(w http.ResponseWriter, _ bool) bool { fmt.Fprint(w, "<html>Welcome"); return true },
		"nothing":                  func(http.ResponseWriter, bool) bool { return true },
		"a cut connection":         func(http.ResponseWriter, bool) bool { panic(http.ErrAbortHandler) },
		"garbage as events":        watchSays("}}}\n"),
		"no event":                 watchSays(""),
		"events of a node":         watchSays(`{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}}` + "\n"),
		"events that do not exist": watchSays(`{"type":"RENAMED","object":` + good + "}\n"),
		"an undecodable event":     watchSays(`{"type":"ADDED","object":` + broken + "}\n"),
		"errors as events":         watchSays(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError"}}` + "\n"),
		"expired at once":          watchSays(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}}` + "\n"),
		"overload as events":       watchSays(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests"}}` + "\n"),
		"a bookmark at a time":     watchSays(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"100"}}}` + "\n"),
	} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/streams=%t", name, streams), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &wire{streams: streams, pods: []string{good}}
					client := s.serve(t)
					var lines func() int
					source, got, _ := runOn(t, client, func(o *Options) { lines = logs(o) })
					after(5 * time.Second)
					want(t, "before", got, "a=1")
					s.set(func(s *wire) { s.fault = fault })
					s.next <- "}"
					s.requests()
					after(time.Hour)
					for _, set := range got.take() {
						if set != "a=1" {
							t.Fatalf("the set became %q", set)
						}
					}
					if n, most := len(s.requests()), 14*(60*2+20); n > most {
						t.Errorf("%d requests in an hour, more than %d", n, most)
					}
					if n := lines(); n > 2 {
						t.Errorf("%d lines logged", n)
					}
					if h := source.Health(); h.LastError == nil && time.Since(h.LastSuccess) > 30*time.Minute {
						t.Errorf("health says nothing: %+v", h)
					}
					s.set(func(s *wire) { s.fault, s.pods = nil, []string{object(pod("b", "2", "99"))} })
					after(10 * time.Minute)
					if sets := got.take(); len(sets) == 0 || sets[len(sets)-1] != "b=2" {
						t.Errorf("after it: %q; health %+v", sets, source.Health())
					}
					if source.Health().LastError != nil {
						after(3 * time.Second) // this server's watches are silent: one was just abandoned, and a list follows
					}
					if h := source.Health(); h.LastError != nil {
						t.Errorf("health after it %+v", h)
					}
				})
			})
		}
	}
}

// TestWatchesThatSayNothing (KS9): the pods are listed again after a watch without a word,
// though none lasts for 3 min.
func TestWatchesThatSayNothing(t *testing.T) {
	for _, lasting := range []time.Duration{0, time.Minute} {
		t.Run(lasting.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, over := &wire{pods: []string{object(pod("a", "1", "90"))}}, make(chan struct{})
				s.fault = func(w http.ResponseWriter, watches bool) bool {
					if watches {
						_ = http.NewResponseController(w).Flush()
						select {
						case <-time.After(lasting):
						case <-over:
						}
					}
					return watches
				}
				client := s.serve(t)
				t.Cleanup(func() { close(over) })
				_, got, _ := runOn(t, client, nil)
				after(2*lasting + 10*time.Second)
				if sets := got.take(); len(sets) == 0 || sets[len(sets)-1] != "a=1" {
					t.Errorf("sets %q", sets)
				}
				s.set(func(s *wire) { s.pods = []string{object(pod("b", "2", "99"))} })
				after(6 * time.Minute)
				if sets := got.take(); len(sets) == 0 || sets[len(sets)-1] != "b=2" {
					t.Errorf("sets %q", sets)
				}
			})
		})
	}
}

// TestRetryAfter: an API server that asks for a pause gets it.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &wire{fault: refuse(http.StatusTooManyRequests, "20")}
		_, got, _ := runOn(t, s.serve(t), nil)
		after(10 * time.Minute)
		asked := s.requests()
		for i := 1; i < len(asked); i++ {
			if gap := asked[i].Sub(asked[i-1]); gap < 19*time.Second && gap > time.Second {
				t.Errorf("request %d after %s", i, gap)
			}
		}
		if len(asked) < 5 || len(asked) > 60 {
			t.Errorf("%d requests in 10 min", len(asked))
		}
		s.set(func(s *wire) { s.fault = nil })
		after(time.Minute)
		want(t, "the first list", got, "")
	})
}

// TestUndecodablePod: a list with a pod that does not decode is refused as a whole, so no
// pod of it is missed; the set stays, and Health names what is wrong.
func TestUndecodablePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &wire{pods: []string{object(pod("a", "1", "90")), broken}}
		source, got, _ := runOn(t, s.serve(t), nil)
		after(time.Hour)
		want(t, "an undecodable pod", got)
		if h := source.Health(); h.LastError == nil || errors.Is(h.LastError, context.Canceled) || !strings.Contains(h.LastError.Error(), "containers") {
			t.Errorf("health %+v", h)
		}
		s.set(func(s *wire) { s.pods = s.pods[:1] })
		after(time.Minute)
		want(t, "without it", got, "a=1")
	})
}
