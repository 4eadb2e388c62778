package stats

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestScrapersShareAReading (KV3): those that come while one reads, or within MaxAge, get what it read;
// one that needs more reads for itself.
func TestScrapersShareAReading(t *testing.T) {
	m := newMachine(t, true)
	m.pod("web")
	m.run("web", "app", "c1", 0, time.Second, 4096)
	synctest.Test(t, func(t *testing.T) {
		s := m.source()
		hang := make(chan struct{})
		m.containers.hang = hang
		var scrapers sync.WaitGroup
		for range 20 {
			scrapers.Go(func() {
				if code, lines := get(t, s.ServeResource, ""); code != http.StatusOK || !slices.Contains(lines, "scrape_error 0") {
					t.Errorf("%d %q", code, lines)
				}
			})
		}
		synctest.Wait()
		close(hang)
		scrapers.Wait()
		calls := func(want int) {
			t.Helper()
			if m.containers.calls != want {
				t.Errorf("%d calls, want %d", m.containers.calls, want)
			}
		}
		calls(1)
		advance(t, 900*time.Millisecond)
		get(t, s.ServeResource, "")
		calls(1)
		get(t, s.ServeContainers, "")
		calls(2)
		advance(t, 2*time.Second)
		get(t, s.ServeSummary, "")
		calls(3)
		get(t, s.ServeResource, "") // a part of it
		calls(3)
	})
}

// advance lets time pass in a bubble.
func advance(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// TestHungRuntimeHoldsUpTheScrapeOnly (KV3): each scraper is answered within Timeout of its
// question, with what is known; when the runtime answers again so do the pages.
func TestHungRuntimeHoldsUpTheScrapeOnly(t *testing.T) {
	m := newMachine(t, true)
	m.pod("web")
	m.run("web", "app", "c1", 0, time.Second, 4096)
	synctest.Test(t, func(t *testing.T) {
		s := m.source()
		hang := make(chan struct{})
		m.containers.hang = hang
		var scrapers sync.WaitGroup
		for _, after := range []time.Duration{0, time.Second, 7 * time.Second} {
			for _, page := range []http.HandlerFunc{s.ServeResource, s.ServeContainers, s.ServeSummary} {
				scrapers.Go(func() {
					advance(t, after)
					began := time.Now()
					code, lines := get(t, page, "")
					if took := time.Since(began); took > 8*time.Second {
						t.Errorf("it took %s", took)
					}
					if code == http.StatusOK && !slices.Contains(lines, "scrape_error 1") && !slices.Contains(lines, "container_scrape_error 1") {
						t.Errorf("%d %q", code, lines)
					}
				})
			}
		}
		scrapers.Wait()
		close(hang)
		if code, lines := get(t, s.ServeResource, ""); code != http.StatusOK || !slices.Contains(lines, "scrape_error 0") {
			t.Errorf("later: %d %q", code, lines)
		}
	})
}

// TestScrapeWithoutATurn (KV3): it has the node alone, as it is. Those that /proc does not say are left out.
func TestScrapeWithoutATurn(t *testing.T) {
	m := newMachine(t, true)
	synctest.Test(t, func(t *testing.T) {
		s := m.source()
		s.turn <- struct{}{}
		_, containers := get(t, s.ServeContainers, "")
		_, resource := get(t, s.ServeResource, "")
		for _, want := range []string{
			"container_scrape_error 1", "machine_memory_bytes 1.024e+06", "machine_cpu_cores 2",
			`container_cpu_usage_seconds_total{container="",cpu="total",id="/",image="",name="",namespace="",pod=""} 1.63`,
		} {
			if !slices.Contains(containers, want) {
				t.Errorf("no %s in %q", want, containers)
			}
		}
		for _, want := range []string{"node_cpu_usage_seconds_total 1.63 ", "node_memory_working_set_bytes 614400 ", "node_swap_usage_bytes 10240 ", "resource_scrape_error 1"} {
			if !slices.ContainsFunc(resource, func(l string) bool { return strings.HasPrefix(l, want) }) {
				t.Errorf("no %s in %q", want, resource)
			}
		}
		if code, _ := get(t, s.ServeSummary, ""); code != http.StatusServiceUnavailable {
			t.Errorf("summary: %d", code)
		}
		s.options.Proc = t.TempDir()
		if _, lines := get(t, s.ServeContainers, ""); slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "machine_") }) {
			t.Errorf("%q", lines)
		}
	})
}

// TestFailedReadingIsNotShared (KV3): the next scrape asks the runtime itself, however soon it comes.
func TestFailedReadingIsNotShared(t *testing.T) {
	m := newMachine(t, true)
	m.pod("web")
	synctest.Test(t, func(t *testing.T) {
		s := m.source(func(o *Options) { o.Timeout, o.MaxAge = time.Second, time.Minute })
		hang := make(chan struct{})
		m.containers.hang = hang
		if _, lines := get(t, s.ServeResource, ""); !slices.Contains(lines, "scrape_error 1") {
			t.Errorf("while it hangs: %q", lines)
		}
		close(hang)
		if _, lines := get(t, s.ServeResource, ""); !slices.Contains(lines, "scrape_error 0") {
			t.Errorf("later: %q", lines)
		}
	})
}

// TestScraperThatLeaves: what one that left did not wait for is not the answer of others.
func TestScraperThatLeaves(t *testing.T) {
	m := newMachine(t, true)
	m.pod("web")
	synctest.Test(t, func(t *testing.T) {
		s := m.source()
		m.containers.hang = make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := s.Summary(ctx, true)
			left <- err
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		close(m.containers.hang)
		if _, err := s.Summary(t.Context(), true); err != nil {
			t.Errorf("the next: %v", err)
		}
	})
}

// TestOptionsAreChecked: all problems are told at once.
func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{Proc: "proc", DiskAge: -1, Timeout: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"no Node", "no Engine", `Proc "proc"`, "DiskAge", "Timeout"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

// TestContainerCannotNameTheCgroupOfAnother (KV1): what a container makes in its own cgroup is part of it, whatever it is called.
func TestContainerCannotNameTheCgroupOfAnother(t *testing.T) {
	m := newMachine(t, true)
	m.cgroup("kubepods/poda/c1/x-c2", time.Second, 4096, 41)
	m.cgroup("kubepods/podb/c2", time.Second, 4096, 42)
	s := m.source()
	c1, c2 := &runtimeapi.Container{Id: "c1"}, &runtimeapi.Container{Id: "c2"}
	s.locate(&found{containers: []*runtimeapi.Container{c1}})
	s.locate(&found{containers: []*runtimeapi.Container{c1, c2}})
	if s.paths["c1"] != "kubepods/poda/c1" || s.paths["c2"] != "kubepods/podb/c2" {
		t.Errorf("%v", s.paths)
	}
}

// TestCrowdOfFoldersHidesNoCgroup (KV1): what a search did not reach is searched again once there are fewer folders.
func TestCrowdOfFoldersHidesNoCgroup(t *testing.T) {
	m := newMachine(t, true)
	m.cgroup("kubepods/podb/c2", time.Second, 4096, 42)
	synctest.Test(t, func(t *testing.T) {
		s := m.source()
		s.finder.Most = 2
		all := &found{containers: []*runtimeapi.Container{{Id: "c2"}}}
		s.locate(all)
		s.finder.Most = 3
		advance(t, time.Minute)
		s.locate(all)
		if s.paths["c2"] != "kubepods/podb/c2" {
			t.Errorf("%v", s.paths)
		}
	})
}
