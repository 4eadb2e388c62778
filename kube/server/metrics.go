package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// maxScrapes bounds the concurrent scrapes of one page; further ones are told to retry (503).
const maxScrapes = 8

// probeMetrics is the prefix of metrics about probes. They have their own page, as with the
// kubelet.
const probeMetrics = "prober_"

// metricPage returns the handler of a page with the metrics whose names begin with probeMetrics, or with
// all others. They are gathered first and then written, so a client that does not read delays no other.
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

// scrapeLog logs what could not be gathered.
type scrapeLog struct{ server *Server }

// Println implements [promhttp.Logger].
func (l scrapeLog) Println(v ...any) {
	l.server.options.Logger.V(1).Info("Metrics are not complete", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}
