package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	authorization "k8s.io/api/authorization/v1"
)

// counters are n series of some metrics.
func counters(n int, names ...string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	for _, name := range names {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, []string{"n"})
		for i := range n {
			c.WithLabelValues(strconv.Itoa(i)).Inc()
		}
		registry.MustRegister(c)
	}
	return registry
}

// KH7: /metrics has all metrics but those of probes, which /metrics/probes has; both need the right to
// nodes/metrics.
func TestMetricPages(t *testing.T) {
	r := newRig(t, nil, func(o *Options) { o.Metrics = counters(1, "kubelet_started_pods_total", "prober_probe_total") })
	for path, has := range map[string]string{"/metrics": "kubelet_started_pods_total", "/metrics/probes": "prober_probe_total"} {
		code, body := r.get(path, "good")
		if code != http.StatusOK || !strings.Contains(body, has+`{n="0"} 1`) || strings.Count(body, "# TYPE") != 1 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	r.may = func(s authorization.SubjectAccessReviewSpec) bool {
		return s.ResourceAttributes.Subresource != "metrics"
	}
	r.clock.Step(10 * time.Minute)
	if code, _ := r.get("/metrics/probes", "good"); code != http.StatusForbidden {
		t.Errorf("without the right to nodes/metrics: %d", code)
	}
}

// A page that nothing was given for does not exist.
func TestPagesWithoutSource(t *testing.T) {
	r := newRig(t, nil)
	for _, path := range []string{"/metrics", "/metrics/probes", "/configz"} {
		if code, body := r.get(path, "good"); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// A metric that cannot be gathered hides no other one.
func TestMetricsInPart(t *testing.T) {
	r := newRig(t, nil, func(o *Options) {
		o.Metrics = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			all, _ := counters(1, "kubelet_started_pods_total").Gather()
			return all, errors.New("another one is broken")
		})
	})
	if code, body := r.get("/metrics", "good"); code != http.StatusOK || !strings.Contains(body, "kubelet_started_pods_total") {
		t.Errorf("%d %s", code, body)
	}
}

// KH9: scrapers that do not read keep neither the source of the metrics nor other requests waiting,
// and end with the server.
func TestHungScrapers(t *testing.T) {
	var mu sync.Mutex
	gathering, gathered := 0, 0
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_started_pods_total", Help: strings.Repeat("more than the buffers of a connection take ", 1<<19),
	}))
	r := newRig(t, nil, func(o *Options) {
		o.Metrics = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			mu.Lock()
			defer mu.Unlock()
			gathering++
			all, err := registry.Gather()
			gathering--
			gathered++
			return all, err
		})
	})
	for range maxScrapes {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(r.address, "https://"), &tls.Config{RootCAs: r.ca.pool(), MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer good\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil { // the answer has begun
			t.Fatal(err)
		}
	}
	mu.Lock()
	if gathering != 0 || gathered != maxScrapes {
		t.Errorf("%d of %d scrapes still gather", gathering, gathered)
	}
	mu.Unlock()
	if code, _ := r.get("/metrics", "good"); code != http.StatusServiceUnavailable {
		t.Errorf("one scraper too many: %d", code)
	}
	if code, _ := r.get("/healthz", "good"); code != http.StatusOK {
		t.Errorf("beside hung scrapers: %d", code)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}
