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
	s.Counter("a_total", "").Add(t.Context(), 2, instrument.Labels("x", "1", "b", "2"))
	s.SecondsCounter("a_seconds_total", "").Add(t.Context(), .5)
	s.Gauge("pods", "").Record(t.Context(), 7)
	s.UpDown("calls", "").Add(t.Context(), 3)
	s.Sizes("sizes", "", 1, 2).Record(t.Context(), 3)
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
	count, size, age := s.ReadCounter("n_total", ""), s.ReadGauge("size_bytes", ""), s.ReadSeconds("age_seconds", "")
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
