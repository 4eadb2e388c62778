package instrument_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/instrument/instrumenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryInstrumentRecords(t *testing.T) {
	m := &instrumenttest.Meter{}
	s := instrument.New(m)
	s.Counter("a_total", "", instrument.By("x"), instrument.By("b", "2", "3")).Add(t.Context(), 2, instrument.Labels("x", "1", "b", "2"))
	s.SecondsCounter("a_seconds_total", "").Add(t.Context(), .5)
	s.Gauge("pods", "").Record(t.Context(), 7)
	s.UpDown("calls", "").Add(t.Context(), 3)
	s.Sizes("sizes", "", instrument.Buckets(1, 2)).Record(t.Context(), 3)
	s.Durations("took_seconds", "").Record(t.Context(), .2)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"a_total{b=2,x=1}": 2, "a_seconds_total": .5, "pods": 7, "calls": 3, "sizes": 1, "took_seconds": 1}
	if diff := cmp.Diff(want, m.Take()); diff != "" {
		t.Error(diff)
	}
}

func TestValuesAreExportedOnce(t *testing.T) {
	m := &instrumenttest.Meter{}
	s := instrument.New(m)
	count, size, age := s.ReadCounter("n_total", "", instrument.By("k")), s.ReadGauge("size_bytes", ""), s.ReadSeconds("age_seconds", "")
	read := func(o metric.Observer) {
		o.ObserveInt64(count, 1, instrument.Labels("k", "v"))
		o.ObserveInt64(size, 2)
		o.ObserveFloat64(age, 3)
	}
	for range 2 {
		withdraw, err := s.Export(read)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Export(read); !errors.Is(err, instrument.ErrExported) {
			t.Errorf("a second export: %v", err)
		}
		if diff := cmp.Diff(map[string]float64{"n_total{k=v}": 1, "size_bytes": 2, "age_seconds": 3}, m.Read(t.Context())); diff != "" {
			t.Error(diff)
		}
		withdraw()
		withdraw()
		if got := m.Read(t.Context()); len(got) > 0 {
			t.Errorf("read after the end: %v", got)
		}
	}
}

func TestRefusedInstrumentsAreSilent(t *testing.T) {
	s := instrument.New(&instrumenttest.Meter{Refuse: []string{"took_seconds", "n"}})
	s.Durations("took_seconds", "").Record(t.Context(), 1)
	s.ReadGauge("n", "")
	s.Counter("other", "")
	if err := s.Err(); !errors.Is(err, instrumenttest.ErrRefused) {
		t.Errorf("the problem is lost: %v", err)
	}
	if err := instrument.New(nil).Err(); err != nil {
		t.Error(err)
	}
}

func TestCountersWithClosedLabelsBeginAtZero(t *testing.T) {
	m := &instrumenttest.Meter{}
	s := instrument.New(m)
	s.Counter("plain_total", "")
	s.Counter("closed_total", "", instrument.By("a", "1", "2"), instrument.By("b", "x", "y"))
	s.Counter("open_total", "", instrument.By("a", "1"), instrument.By("pod"))
	s.Counter("partly_total", "", instrument.From("a", "1", "2"))
	s.SecondsCounter("took_seconds_total", "", instrument.By("a", "1"))
	s.UpDown("calls", "")
	s.Gauge("size", "")
	want := []string{"calls", "closed_total{a=1,b=x}", "closed_total{a=1,b=y}", "closed_total{a=2,b=x}", "closed_total{a=2,b=y}", "partly_total{a=1}", "partly_total{a=2}", "plain_total", "took_seconds_total{a=1}"}
	if diff := cmp.Diff(want, m.Begun()); diff != "" {
		t.Error(diff)
	}
}

func TestUndeclaredLabelsAreNoticed(t *testing.T) {
	s := instrument.New(&instrumenttest.Meter{})
	counter := s.Counter("n_total", "", instrument.By("kind", "a", "b"), instrument.By("pod"))
	for name, labels := range map[string]metric.MeasurementOption{
		"none": instrument.Labels(), "one is missing": instrument.Labels("kind", "a"),
		"one too many":       instrument.Labels("kind", "a", "pod", "p", "node", "n"),
		"another key":        instrument.Labels("kind", "a", "node", "p"),
		"outside of the set": instrument.Labels("kind", "c", "pod", "p"),
	} {
		if !panics(func() { counter.Add(t.Context(), 1, labels) }) {
			t.Errorf("%s: nothing is said", name)
		}
	}
	counter.Add(t.Context(), 1, instrument.Labels("kind", "b", "pod", "any"))
	s.Counter("partly_total", "", instrument.From("kind", "a")).Add(t.Context(), 1, instrument.Labels("kind", "another"))
	m := &instrumenttest.Meter{}
	s = instrument.New(m)
	read := s.ReadGauge("read", "", instrument.By("kind", "a"))
	withdraw, err := s.Export(func(o metric.Observer) { o.ObserveInt64(read, 1, instrument.Labels("kind", "b")) })
	if err != nil {
		t.Fatal(err)
	}
	defer withdraw()
	if !panics(func() { m.Read(t.Context()) }) {
		t.Error("nothing is said of a value that is read")
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
