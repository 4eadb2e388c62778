package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// maxScrapes bounds the scrapes of one page that go on at once; others are told to come back (503).
const maxScrapes = 8

// probeMetrics is what the names of metrics about probes begin with. They are a page of their own, as
// with the kubelet.
const probeMetrics = "prober_"

// metricPage returns the handler of a page with those metrics whose name begins with probeMetrics, or
// of all others. They are gathered first and written then: a client that does not read holds up nothing.
func (s *Server) metricPage(probes bool) http.HandlerFunc {
	gatherer := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := s.options.Metrics.Gather()
		page := make([]*dto.MetricFamily, 0, len(all))
		for _, family := range all {
			if strings.HasPrefix(family.GetName(), probeMetrics) == probes {
				page = append(page, family)
			}
		}
		return page, err
	})
	handler := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorLog: scrapeLog{s}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes,
	})
	return scrape(handler.ServeHTTP)
}

// scrapeLog notes what could not be gathered.
type scrapeLog struct{ server *Server }

// Println implements [promhttp.Logger].
func (l scrapeLog) Println(v ...any) {
	l.server.options.Logger.V(1).Info("Metrics are not complete", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}
