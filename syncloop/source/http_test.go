package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/syncloop"
)

// answers is an in-memory server: it gives one answer per poll, and repeats the last one forever.
type answers struct {
	list     []answer
	requests []*http.Request
}

type answer struct {
	status int
	body   string
	err    error
	hang   bool
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.requests = append(a.requests, r)
	next := a.list[0]
	if len(a.list) > 1 {
		a.list = a.list[1:]
	}
	if next.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if next.err != nil {
		return nil, next.err
	}
	return &http.Response{StatusCode: next.status, Body: io.NopCloser(strings.NewReader(next.body)), Request: r}, nil
}

func ok(body string) answer { return answer{status: 200, body: body} }

// polled is the outcome of polls that got a list of answers.
type polled struct {
	sets    [][]string // each as "name image"
	events  []string
	health  syncloop.SourceHealth
	pods    []*v1.Pod // the last set
	took    time.Duration
	answers *answers
}

// poll runs a source for n polls in virtual time.
func poll(t *testing.T, n int, options HTTPOptions, list ...answer) (p polled) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p.answers = &answers{list: list}
		recorded := &events{}
		options.Transport, options.Recorder = p.answers, recorded
		h, err := NewHTTP("https://user:hidden@config.example:8443/pods?token=hidden", "Node-1", options)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n-1)*h.options.Period+h.options.Period/2)
		defer cancel()
		err = h.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
			p.sets, p.pods = append(p.sets, describe(pods)), pods
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v", err)
		}
		p.took, p.events, p.health = time.Since(begin), recorded.take(), h.Health()
		if options.Headers == nil && len(p.answers.requests) < n { // without headers the source makes no request
			t.Errorf("%d requests, want %d", len(p.answers.requests), n)
		}
	})
	return p
}

func podJSON(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"containers":[{"name":"main","image":"app:1"}]}}`, name)
}

func listJSON(items ...string) string {
	return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
}

// TestHTTP: H1-H4 and edge case 15, answer by answer.
func TestHTTP(t *testing.T) {
	web, db := []string{"web-node-1 app:1"}, []string{"db-node-1 app:1", "web-node-1 app:1"}
	bare := strings.ReplaceAll(podJSON("web"), `"apiVersion":"v1","kind":"Pod",`, "")
	for _, tc := range []struct {
		name    string
		answers []answer
		sets    [][]string
		// events is how many problems are reported; says is a word of the last.
		events int
		says   string
	}{
		{"one pod", []answer{ok(podJSON("web"))}, [][]string{web}, 0, ""},
		{"one pod in YAML", []answer{ok(manifestOf("web", "app:1"))}, [][]string{web}, 0, ""},
		{"a list", []answer{ok(listJSON(podJSON("web"), podJSON("db")))}, [][]string{db}, 0, ""},
		{"items without kind", []answer{ok(listJSON(bare))}, [][]string{web}, 0, ""},
		{"an empty list", []answer{ok(podJSON("web")), ok(listJSON())}, [][]string{web, {}}, 0, ""},
		{"H1 status 500", []answer{ok(podJSON("web")), {status: 500, body: podJSON("db")}, ok(podJSON("web"))}, [][]string{web}, 1, "status 500"},
		{"H1 no connection", []answer{{err: errors.New("refused")}, ok(podJSON("web"))}, [][]string{web}, 1, "refused"},
		{"H1 no answer in time", []answer{{hang: true}, ok(podJSON("web"))}, [][]string{web}, 1, "deadline exceeded"},
		{"H2 empty body", []answer{ok(podJSON("web")), ok("\n"), ok("\n")}, [][]string{web, {}}, 1, "empty"},
		{"H3 the same body", []answer{ok(podJSON("web")), ok(podJSON("web"))}, [][]string{web}, 0, ""},
		{"H3 a bad body twice is reported twice", []answer{ok(podJSON("web")), ok("{"), ok("{")}, [][]string{web}, 2, "not a pod manifest"},
		{"H3 and the good one again is nothing new", []answer{ok(podJSON("web")), ok("{"), ok(podJSON("web"))}, [][]string{web}, 1, "not a pod manifest"},
		{"H4 one bad pod refuses the list", []answer{ok(podJSON("web")), ok(listJSON(podJSON("db"), `{"metadata":{"name":"x"},"spec":{}}`))}, [][]string{web}, 2, "pod 2 of 2"},
		{"a list of null", []answer{ok(`{"apiVersion":"v1","kind":"PodList","items":[null]}`)}, nil, 3, "null"},
		{"a list of another version", []answer{ok(`{"apiVersion":"v2","kind":"PodList","items":[]}`)}, nil, 3, "version"},
		{"no pod", []answer{ok(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"}}`)}, nil, 3, "Service"},
		{"garbage", []answer{ok("\x00\xff<html>")}, nil, 3, "not a pod manifest"},
		{"SRC4 a list without items", []answer{ok(podJSON("web")), ok(`{"apiVersion":"v1","kind":"PodList","Items":[]}`)}, [][]string{web}, 2, "without items"},
		{"a list of no pods as Go writes it", []answer{ok(podJSON("web")), ok(`{"apiVersion":"v1","kind":"PodList","items":null}`)}, [][]string{web, {}}, 0, ""},
		{"a key twice in a list of one", []answer{ok(listJSON(strings.Replace(podJSON("web"), `"image":`, `"image":"app:0","image":`, 1)))}, [][]string{web}, 1, "image"},
		{"items that are no list", []answer{ok(`{"apiVersion":"v1","kind":"PodList","items":"x"}`)}, nil, 3, "list"},
		{"too large", []answer{ok(strings.Repeat("#", maxManifestSize+1))}, nil, 3, "larger"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := poll(t, 3, HTTPOptions{}, tc.answers...)
			if !slices.EqualFunc(got.sets, tc.sets, slices.Equal) {
				t.Errorf("sets %v, want %v", got.sets, tc.sets)
			}
			if len(got.events) != tc.events {
				t.Fatalf("events %q, want %d", got.events, tc.events)
			}
			if tc.events > 0 && !strings.Contains(got.events[tc.events-1], tc.says) {
				t.Errorf("event %q says nothing of %q", got.events[tc.events-1], tc.says)
			}
			for _, e := range got.events {
				if strings.Contains(e, "hidden") {
					t.Errorf("event %q tells a secret", e)
				}
			}
		})
	}
}

// D1, D2, D4, D6, D7: the identity of the pods.
func TestHTTPIdentity(t *testing.T) {
	a := poll(t, 1, HTTPOptions{}, ok(podJSON("web"))).pods[0]
	if len(a.UID) != 32 || a.Annotations[podinfo.AnnotationHash] != string(a.UID) {
		t.Errorf("UID %q, hash %q", a.UID, a.Annotations[podinfo.AnnotationHash])
	}
	if a.Spec.NodeName != "Node-1" || a.Namespace != "default" || len(a.Spec.Tolerations) != 0 {
		t.Errorf("pod %+v", a)
	}
	spaced := poll(t, 1, HTTPOptions{}, ok(" "+podJSON("web")+"\n")).pods[0]
	if spaced.UID != a.UID {
		t.Error("white space changes the UID")
	}
	inList := poll(t, 1, HTTPOptions{}, ok(listJSON(podJSON("web")))).pods[0]
	if inList.UID != a.UID {
		t.Error("the list changes the UID")
	}
	file, err := newDecoder("Node-1", false)
	must(t, err)
	other, err := file.decode([]byte(podJSON("web")), "file:/x")
	must(t, err)
	if other.UID == a.UID {
		t.Error("a file and a URL give the same UID")
	}
}

// TestHTTPHeader: requests have the headers, a Host header names the host, and no
// other server sees them.
func TestHTTPHeader(t *testing.T) {
	got := poll(t, 1, HTTPOptions{Header: http.Header{"X-Token": {"secret"}, "Host": {"other.example"}}}, ok(podJSON("web")))
	r := got.answers.requests[0]
	if r.Header.Get("X-Token") != "secret" || r.Host != "other.example" || r.Method != http.MethodGet {
		t.Errorf("request %v %v %v", r.Method, r.Host, r.Header)
	}

	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	defer stranger.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, stranger.URL, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/pods", http.StatusFound)
		default:
			fmt.Fprint(w, podJSON("web"))
		}
	}))
	defer server.Close()
	for path, want := range map[string]bool{"/away": false, "/here": true, "/pods": true} {
		h, err := NewHTTP(server.URL+path, "node-1", HTTPOptions{Header: http.Header{"X-Token": {"secret"}}})
		must(t, err)
		client, done := h.client()
		_, err = h.get(t.Context(), client)
		done()
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestHTTPHeadersOfTheMoment: H1. The source gets the headers before each request, so it sends a
// renewed token; without them it makes no request, and the pods stay.
func TestHTTPHeadersOfTheMoment(t *testing.T) {
	asked := 0
	headers := func() (http.Header, error) {
		if asked++; asked == 2 {
			return nil, errors.New("token.txt: line 3 is broken")
		}
		return http.Header{"X-Token": {fmt.Sprint("secret-", asked)}}, nil
	}
	got := poll(t, 3, HTTPOptions{Header: http.Header{"X-Fleet": {"a"}}, Headers: headers}, ok(podJSON("web")), ok(podJSON("web")))
	if len(got.answers.requests) != 2 || len(got.sets) != 1 || len(got.events) != 1 || !strings.Contains(got.events[0], "line 3 is broken") {
		t.Fatalf("%d requests, sets %v, events %q", len(got.answers.requests), got.sets, got.events)
	}
	for i, want := range []string{"secret-1", "secret-3"} {
		if h := got.answers.requests[i].Header; h.Get("X-Token") != want || len(h["X-Token"]) != 1 || h.Get("X-Fleet") != "a" {
			t.Errorf("request %d: %v", i, h)
		}
	}
}

// H5: the source reports three failures, then one note, then nothing until the next success.
func TestHTTPQuiet(t *testing.T) {
	bad := answer{status: 404}
	got := poll(t, 9, HTTPOptions{}, bad, bad, bad, bad, bad, bad, ok(podJSON("web")), bad)
	if len(got.events) != 5 { // three, and the two after the success
		t.Errorf("%d events: %q", len(got.events), got.events)
	}
	if got.health.LastSuccess.IsZero() || got.health.LastError == nil || !errors.Is(got.health.LastError, ErrUnavailable) {
		t.Errorf("health %+v", got.health)
	}
}

// H5: a server that is down does not hide that what it answers later is wrong.
func TestHTTPQuietByKind(t *testing.T) {
	down, bad := answer{status: 500}, ok("{")
	got := poll(t, 12, HTTPOptions{}, down, down, down, down, down, bad, bad, down, bad, bad, bad, down)
	if len(got.events) != 6 || !strings.Contains(got.events[3], "not a pod manifest") {
		t.Errorf("%d events: %q", len(got.events), got.events)
	}
}

// TestHTTPRunsAgain: whoever runs the source next gets its set, though the answer is as it was (SRC2).
func TestHTTPRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHTTP("http://config.example/", "node-1", HTTPOptions{Transport: &answers{list: []answer{ok(podJSON("web"))}}})
		must(t, err)
		for run := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
			var sets [][]string
			if err := h.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
				sets = append(sets, describe(pods))
				return nil
			}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Run: %v", err)
			}
			cancel()
			diff(t, fmt.Sprint("run ", run), [][]string{{"web-node-1 app:1"}}, sets)
		}
	})
}

// TestHTTPHandshakeEnds: a server that takes connections but never answers the TLS handshake does not
// collect them: the source closes each.
func TestHTTPHandshakeEnds(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	h, err := NewHTTP("https://"+server.Addr().String(), "node-1", HTTPOptions{Period: time.Millisecond, Timeout: 10 * time.Millisecond})
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx, nil) }()
	for range 3 {
		conn, err := server.Accept()
		must(t, err)
		if _, err := io.Copy(io.Discard, conn); err != nil { // returns once the source has closed it
			t.Error(err)
		}
		must(t, conn.Close())
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
}

// TestHTTPHealth: a request that goes on can be told, and a warning about an answer that counts from a failure.
func TestHTTPHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{list: []answer{ok(""), ok(""), {hang: true}, {status: 500}, ok(podJSON("web"))}}
		h, err := NewHTTP("http://config.example/", "node-1", HTTPOptions{Transport: server})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx, func(context.Context, []*v1.Pod) error { return nil }) }()
		begin := time.Now()
		at := func(seconds int, want string) {
			t.Helper()
			<-time.After(time.Until(begin.Add(time.Duration(seconds)*time.Second + time.Second)))
			s, got := h.Health(), "fine"
			switch {
			case s.LastError != nil && s.LastErrorAt.After(s.LastSuccess):
				got = "failed"
			case s.LastError != nil:
				got = fmt.Sprintf("warned at %v", s.LastErrorAt.Sub(begin))
			}
			if !s.Pending.IsZero() {
				got += fmt.Sprintf(", asks since %v", s.Pending.Sub(begin))
			}
			if got != want {
				t.Errorf("after %d s: %s, want %s", seconds, got, want)
			}
		}
		at(0, "warned at 0s")
		at(20, "warned at 0s")
		at(40, "warned at 0s, asks since 40s")
		at(50, "failed")
		at(70, "failed")
		at(90, "fine")
		cancel()
		<-done
	})
}

// A set that could not be delivered is delivered again by the next Run.
func TestHTTPDeliverFails(t *testing.T) {
	h, err := NewHTTP("http://config.example/", "node-1", HTTPOptions{Transport: &answers{list: []answer{ok(podJSON("web"))}}})
	must(t, err)
	refused := errors.New("refused")
	for range 2 {
		if err := h.Run(t.Context(), func(context.Context, []*v1.Pod) error { return refused }); !errors.Is(err, refused) {
			t.Errorf("Run: %v", err)
		}
	}
}

// TestHTTPTimeout: edge case 15, section 2. The source gives a silent server 10 s, and
// asks again 20 s later.
func TestHTTPTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := &answers{list: []answer{{hang: true}}}
		h, err := NewHTTP("http://config.example/", "node-1", HTTPOptions{Transport: hanging})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		defer cancel()
		begin := time.Now()
		if err := h.Run(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v", err)
		}
		if len(hanging.requests) != 2 {
			t.Errorf("%d requests in 45 s, want one at 0 s and one at 30 s", len(hanging.requests))
		}
		if s := h.Health(); s.LastErrorAt.Sub(begin) != 40*time.Second || !errors.Is(s.LastError, ErrUnavailable) {
			t.Errorf("health %+v: the second request failed %v after the begin, want 40 s", s, s.LastErrorAt.Sub(begin))
		}
	})
}

// TestDefaultsOfSources: section 2. Options left out have the same defaults in both
// sources; options that are set stay.
func TestDefaultsOfSources(t *testing.T) {
	file, err := NewFile("/x", "n", FileOptions{})
	must(t, err)
	polled, err := NewHTTP("http://x/", "n", HTTPOptions{})
	must(t, err)
	diff(t, "names", []string{"file", "http"}, []string{file.Name(), polled.Name()})
	diff(t, "times", []time.Duration{20 * time.Second, 20 * time.Second, 10 * time.Second},
		[]time.Duration{file.options.Period, polled.options.Period, polled.options.Timeout})
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	file, err = NewFile("/x", "n", FileOptions{Name: "a", Period: 1, Clock: fake})
	must(t, err)
	polled, err = NewHTTP("http://x/", "n", HTTPOptions{Name: "b", Period: 2, Timeout: 3, Clock: fake})
	must(t, err)
	diff(t, "names", []string{"a", "b"}, []string{file.Name(), polled.Name()})
	diff(t, "times", []time.Duration{1, 2, 3}, []time.Duration{file.options.Period, polled.options.Period, polled.options.Timeout})
	if file.options.Clock != fake || polled.options.Clock != fake {
		t.Error("another clock than the given one")
	}
}

func TestNewHTTPRefuses(t *testing.T) {
	for name, f := range map[string]func() error{
		"scheme":   func() error { _, err := NewHTTP("ftp://x/", "n", HTTPOptions{}); return err },
		"host":     func() error { _, err := NewHTTP("http://", "n", HTTPOptions{}); return err },
		"text":     func() error { _, err := NewHTTP("http://u:hidden@x y/", "n", HTTPOptions{}); return err },
		"node":     func() error { _, err := NewHTTP("http://x/", "a b", HTTPOptions{}); return err },
		"negative": func() error { _, err := NewHTTP("http://x/", "n", HTTPOptions{Period: -1}); return err },
		"timeout":  func() error { _, err := NewHTTP("http://x/", "n", HTTPOptions{Timeout: -1}); return err },
	} {
		if err := f(); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := NewHTTP("ftp://x/", "a b", HTTPOptions{Period: -1, Timeout: -1})
	for _, want := range []string{`scheme "ftp"`, `node name "a b"`, "the period must not", "the timeout must not"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
