package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// server answers every poll with the answer that was set last.
type server struct {
	mu     sync.Mutex
	answer func(r *http.Request) (*http.Response, error)
}

func (s *server) says(answer func(r *http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	return answer(r)
}

// body returns an answer with this status and text.
func body(status int, text string) func(r *http.Request) (*http.Response, error) {
	return streamed(status, func() io.Reader { return strings.NewReader(text) })
}

func streamed(status int, text func() io.Reader) func(r *http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Location": {"https://elsewhere.example/"}}, Body: io.NopCloser(text()), Request: r}, nil
	}
}

// podList is the answer that wants these pods.
func podList(names ...string) string {
	items := make([]string, 0, len(names))
	for _, n := range names {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"uid":"uid-%s"},"spec":{"containers":[{"name":"main","image":"app:1"}]}}`, n, n))
	}
	return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
}

// TestBadAnswerChangesNothing: H1-H5, SRC4, edge case 15. An answer that is not a list of pods
// starts and stops nothing, however often it comes. The first three are reported, the engine shows
// the problem all the time, and the next good answer counts.
func TestBadAnswerChangesNothing(t *testing.T) {
	t.Parallel()
	const unreadable, invalid = "ManifestUnreadable", "FailedValidation"
	for _, tc := range []struct {
		name         string
		answer       func(r *http.Request) (*http.Response, error)
		reason, says string
	}{
		{"status 500 with pods", body(500, podList("web", "bad")), unreadable, "status 500, want 200"},
		{"no connection", func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }, unreadable, "connection refused"},
		{"no answer in time", func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, unreadable, "deadline exceeded"},
		{"another server", body(302, ""), unreadable, "it redirects to another server"},
		{"an answer that breaks off", streamed(200, func() io.Reader {
			return io.MultiReader(strings.NewReader(podList("web", "bad")[:40]), iotest.ErrReader(io.ErrUnexpectedEOF))
		}), unreadable, "its answer broke off"},
		{"half an answer", body(200, podList("web", "bad")[:80]), unreadable, "not a pod manifest"},
		{"a page", body(200, "<html><body>Please log in</body></html>"), unreadable, "not a pod manifest"},
		{"garbage", body(200, "\x00\xff\x1f\x8b"), unreadable, "not a pod manifest"},
		{"11 MiB", body(200, podList("web", "bad")+strings.Repeat(" ", 11<<20)), unreadable, "larger than 10 MiB"},
		{"one bad pod in a list", body(200, podList("bad", "web", "../../x")), invalid, "pod 3 of 3"},
		{"a pod that is null", body(200, `{"apiVersion":"v1","kind":"PodList","items":[null]}`), unreadable, "item 1 of the list is null"},
		{"something else", body(200, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`), unreadable, `of kind "Secret"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { badAnswer(t, tc.answer, tc.reason, tc.says) })
		})
	}
}

func badAnswer(t *testing.T, answer func(r *http.Request) (*http.Response, error), reason, says string) {
	s, counted := &server{answer: body(200, podList("web"))}, &counters{}
	r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
		polled, err := source.NewHTTP("https://user:hidden@config.example/pods?token=hidden", "n1", source.HTTPOptions{
			Transport: s, Recorder: c.Observe.Events, Meter: counted.Meter(""),
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Sources = []syncloop.Source{polled}
	}).start()
	r.phase("uid-web", v1.PodRunning, 10*time.Second)
	s.says(answer)
	<-time.After(10 * time.Minute)
	synctest.Wait()
	if f := r.runtime.Facts("uid-web", "main"); f.Started != 1 || f.Running != 1 {
		t.Errorf("web: %+v", f)
	}
	if n := r.runtime.CallCount(fake.RunPodSandbox); n != 1 || len(r.engine.Pods()) != 1 {
		t.Errorf("%d sandboxes were made, %d pods are known", n, len(r.engine.Pods()))
	}
	said := r.events.said("n1 " + reason)
	if n := counted.get("podwright_syncloop_manifest_problems_total", "reason="+reason+",source=http"); len(said) != 3 || n != 3 {
		t.Fatalf("events %q, counted %d times, want 3", said, n)
	}
	health := r.problems()
	if health == nil {
		t.Fatal("the engine calls itself healthy")
	}
	for _, text := range append(said, health.Error()) {
		if !strings.Contains(text, says) || strings.Contains(text, "hidden") {
			t.Errorf("%q does not say %q, or tells a secret", text, says)
		}
	}
	if !strings.HasPrefix(said[0], "manifest https://config.example/pods: ") || !strings.HasPrefix(health.Error(), "source http: ") {
		t.Errorf("%q and %q do not name the source", said[0], health)
	}
	s.says(body(200, podList("web", "next")))
	r.phase("uid-next", v1.PodRunning, 40*time.Second)
	if err := r.problems(); err != nil {
		t.Errorf("after a good answer: %v", err)
	}
	if f := r.runtime.Facts("uid-web", "main"); f.Started != 1 || f.Running != 1 {
		t.Errorf("web in the end: %+v", f)
	}
}

// TestEmptyAnswerWantsNoPods: H2, SRC3, edge case 15. An empty answer wants no pods; the engine
// complies and reports it, because it may well be a mistake.
func TestEmptyAnswerWantsNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: body(200, podList("web"))}
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			polled, err := source.NewHTTP("http://config.example/pods", "n1", source.HTTPOptions{Transport: s, Recorder: c.Observe.Events})
			if err != nil {
				t.Fatal(err)
			}
			c.Sources = []syncloop.Source{polled}
		}).start()
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		s.says(body(200, " \n"))
		r.empty(time.Minute)
		<-time.After(5 * time.Minute)
		if said := r.events.said("n1 ManifestUnreadable"); len(said) != 1 || !strings.Contains(said[0], "its answer is empty, which means no pods") {
			t.Errorf("events %q", said)
		}
		if err := r.problems(); err == nil || !strings.Contains(err.Error(), "source http: its answer is empty") {
			t.Errorf("health: %v", err)
		}
	})
}

// frail is a source that delivers its pods and then misbehaves as configured.
type frail struct {
	name string
	pods []*v1.Pod
	then chan func(ctx context.Context) error
	mu   sync.Mutex
	runs int
}

func (s *frail) Name() string { return s.name }

func (s *frail) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	s.mu.Lock()
	s.runs++
	pods := s.pods
	s.mu.Unlock()
	if pods != nil {
		if err := deliver(ctx, pods); err != nil {
			return err
		}
	}
	select {
	case then := <-s.then:
		return then(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestFailedSourceKeepsItsPods: SRC4, P3, B1, B9, SI9, edge case 16. A source that fails, panics or ends
// keeps its pods and harms those of no other source. The loop runs it again, except after its end, and
// the engine names the source and the reason.
func TestFailedSourceKeepsItsPods(t *testing.T) {
	for _, tc := range []struct {
		name string
		then func(ctx context.Context) error
		// says is part of the engine's health; failures are counted.
		says     string
		failures int64
		again    bool
	}{
		{"it fails", func(context.Context) error { return errors.New("watch is closed: too old") }, "source dying: watch is closed: too old", 1, true},
		{"it panics", func(context.Context) error { panic("nil map") }, "source dying: panic: nil map", 1, true},
		{"it gives up its context", func(context.Context) error { return context.Canceled }, "source dying: context canceled", 1, true},
		{"it ends", func(context.Context) error { return nil }, "", 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dying, counted := &frail{name: "dying", pods: []*v1.Pod{newPod("db")}, then: make(chan func(context.Context) error, 1)}, &counters{}
				r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
					c.Sources, c.Observe.MeterProvider = append(c.Sources, dying), counted
				}).start()
				r.set(newPod("web"))
				r.phase("uid-web", v1.PodRunning, 10*time.Second)
				r.phase("uid-db", v1.PodRunning, 10*time.Second)
				synctest.Wait()
				dying.mu.Lock()
				dying.pods = nil // it delivers nothing more
				dying.mu.Unlock()
				dying.then <- tc.then
				<-time.After(10 * time.Minute)
				synctest.Wait()
				dying.mu.Lock()
				if again := dying.runs > 1; again != tc.again {
					t.Errorf("it was run %d times", dying.runs)
				}
				dying.mu.Unlock()
				err := r.problems()
				if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("healthy: %v, want %q", err, tc.says)
				}
				if n := counted.get("podwright_syncloop_source_failures_total", "source=dying"); n != tc.failures {
					t.Errorf("counted %d failures", n)
				}
				r.set(newPod("api")) // the other source goes on: it adds one pod and removes one
				r.phase("uid-api", v1.PodRunning, 10*time.Second)
				r.within(time.Minute, "web gone", func() error {
					if r.pod("uid-web") != nil {
						return errors.New("still known")
					}
					return nil
				})
				if f := r.runtime.Facts("uid-db", "main"); f.Started != 1 || f.Running != 1 {
					t.Errorf("the pod of the source that died: %+v", f)
				}
			})
		})
	}
}
