package stats

import (
	"cmp"
	"fmt"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processTime is what this process has used.
func processTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkScrape (KV3): a scrape of 110 pods with two containers each. The files are on a disk here; those
// of the kernel cost a few microseconds more each.
func BenchmarkScrape(b *testing.B) {
	for _, version := range []string{"v1", "v2"} {
		m := newMachine(b, version == "v2")
		for i := range 110 {
			pod := fmt.Sprintf("p%03d", i)
			m.pod(pod)
			cgroup := "kubepods/burstable/poduid-" + pod
			m.cgroup(cgroup, time.Second, 1<<20, 1000+i)
			m.cgroup(cgroup+"/sandbox-"+pod, time.Second, 1<<20, 1000+i)
			for _, name := range []string{"app", "side"} {
				id := name + "." + pod
				m.run(pod, name, id, 0, time.Second, 1<<20)
				m.cgroup(cgroup+"/"+id, time.Second, 1<<20, 1000+i)
			}
		}
		s := m.source(func(o *Options) { o.MaxAge = -1 })
		for name, page := range map[string]http.HandlerFunc{"resource": s.ServeResource, "summary": s.ServeSummary, "cadvisor": s.ServeContainers} {
			for _, encoding := range []string{"", "gzip"} {
				if name == "summary" && encoding == "gzip" {
					continue
				}
				b.Run(name+"/"+cmp.Or(encoding, "plain")+"/"+version, func(b *testing.B) {
					b.ReportAllocs()
					began := processTime(b)
					bytes := 0
					for b.Loop() {
						_, bytes = scrape(b, page, encoding)
					}
					b.ReportMetric(float64((processTime(b)-began).Microseconds())/float64(b.N)/1000, "cpu-ms/scrape")
					b.ReportMetric(float64(bytes), "bytes")
				})
			}
		}
	}
}
