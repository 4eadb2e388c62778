package server

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
)

// pages answer with their names.
type pages struct{}

func (pages) ServeSummary(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, "summary ", r.URL.RawQuery)
}
func (pages) ServeResource(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "resource") }
func (pages) ServeContainers(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, "containers")
}

// TestStatsPages (KH2, KH7): each needs a right to its own subresource, and is 404 without a source.
func TestStatsPages(t *testing.T) {
	r := newRig(t, nil, func(o *Options) { o.Stats = pages{} })
	for _, c := range []struct{ path, subresource, want string }{
		{"/stats/summary?only_cpu_and_memory=true", "stats", "summary only_cpu_and_memory=true"},
		{"/metrics/resource", "metrics", "resource"},
		{"/metrics/cadvisor", "metrics", "containers"},
	} {
		r.may = func(q authorization.SubjectAccessReviewSpec) bool {
			return q.ResourceAttributes.Verb == "get" && q.ResourceAttributes.Subresource == c.subresource
		}
		r.clock.Step(6 * time.Minute) // no decision is kept
		if code, body := r.get(c.path, "good"); code != http.StatusOK || body != c.want {
			t.Errorf("%s: %d %q", c.path, code, body)
		}
		if code, _ := r.get(c.path, ""); code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", c.path, code)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.asked, func(q authorization.SubjectAccessReviewSpec) bool { return q.ResourceAttributes.Subresource == "proxy" }) {
		t.Errorf("asked for more than is needed: %+v", r.asked)
	}
	without := newRig(t, nil)
	if code, _ := without.get("/stats/summary", "good"); code != http.StatusNotFound {
		t.Errorf("without a source: %d", code)
	}
}

// slowPages do not answer before they are told to.
type slowPages struct {
	pages
	begun, end chan struct{}
}

func (p slowPages) ServeResource(http.ResponseWriter, *http.Request) {
	p.begun <- struct{}{}
	<-p.end
}

// TestStatsPagesOfACrowd (KH9): scrapes of a page that a hung runtime holds up are bounded; other pages answer.
func TestStatsPagesOfACrowd(t *testing.T) {
	p := slowPages{begun: make(chan struct{}), end: make(chan struct{})}
	r := newRig(t, nil, func(o *Options) { o.Stats = p })
	var waiting sync.WaitGroup
	for range maxScrapes {
		waiting.Go(func() {
			if code, _ := r.get("/metrics/resource", "good"); code != http.StatusOK {
				t.Errorf("%d", code)
			}
		})
	}
	for range maxScrapes {
		<-p.begun
	}
	if code, _ := r.get("/metrics/resource", "good"); code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", code)
	}
	if code, _ := r.get("/metrics/cadvisor", "good"); code != http.StatusOK {
		t.Errorf("another page: %d", code)
	}
	close(p.end)
	waiting.Wait()
}
