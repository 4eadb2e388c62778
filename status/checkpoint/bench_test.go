package checkpoint_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/status/checkpoint"
)

// BenchmarkGroupCommit measures how long 1,000 pods that start at once wait for this machine's
// disk, in total and the last one.
func BenchmarkGroupCommit(b *testing.B) {
	for range b.N {
		var syncs time.Duration
		var began time.Time
		points := &checkpointtest.Points{
			FS:     checkpoint.Dir(b.TempDir()),
			Before: func(checkpointtest.Op) error { began = time.Now(); return nil },
			After: func(op checkpointtest.Op) error {
				if strings.HasPrefix(op.Kind, "sync") {
					syncs += time.Since(began)
				}
				return nil
			},
		}
		keeper := checkpoint.NewKeeper(checkpoint.Options{Store: checkpoint.NewFiles(points)})
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- keeper.Run(ctx) }()
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 1000 {
			r := record(types.UID(fmt.Sprint("pod-", i)), 1)
			keeper.Ensure(r.UID, func(to *checkpoint.Record) checkpoint.Class { *to = *r; return checkpoint.Durable })
			wg.Go(func() {
				if err := keeper.Sync(ctx, r.UID); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/1000pods")
		b.ReportMetric(float64(syncs.Microseconds())/1000, "sync-ms/1000pods")
		cancel()
		<-done
	}
}

// BenchmarkSeal writes and reads the same record plain and sealed in turn, on a disk in memory: what a key
// costs per record.
func BenchmarkSeal(b *testing.B) {
	plain, sealed := checkpoint.NewFiles(&checkpointtest.Disk{}), sealedFiles(b, &checkpointtest.Disk{}, false, checkpointtest.Key(b, 1))
	r := record("uid-1", 1)
	r.Pod.Annotations = map[string]string{"a": strings.Repeat("x", 4<<10)} // as large as one is in practice
	records := []*checkpoint.Record{r}
	var write, read [2]time.Duration
	for b.Loop() {
		for i, s := range []*checkpoint.Files{plain, sealed} {
			begin := time.Now()
			if err := s.Write(b.Context(), records); err != nil {
				b.Fatal(err)
			}
			write[i] += time.Since(begin)
			begin = time.Now()
			if loaded, err := s.Load(b.Context()); err != nil || len(loaded.Records) != 1 {
				b.Fatal(err, loaded.Bad)
			}
			read[i] += time.Since(begin)
		}
	}
	perRecord := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N) }
	b.ReportMetric(perRecord(write[0]), "ns/write-plain")
	b.ReportMetric(perRecord(write[1]), "ns/write-sealed")
	b.ReportMetric(perRecord(read[0]), "ns/read-plain")
	b.ReportMetric(perRecord(read[1]), "ns/read-sealed")
}
