package stats

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/kube/internal/elapsed/elapsedtest"
)

// TestCountersNeverGoBack (KV3): that of a container does not, whatever the runtime says; that of a pod
// without a cgroup does not when its containers restart, run without a sample, or end.
func TestCountersNeverGoBack(t *testing.T) {
	m := newMachine(t, true)
	m.pod("web")
	clock := clocktesting.NewFakeClock(time.Unix(5000, 0))
	s := m.source(func(o *Options) { o.Clock = clock })
	var last uint64
	reads := func(want time.Duration) {
		t.Helper()
		clock.Step(15 * time.Second)
		summary, err := s.Summary(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		got := *summary.Pods[0].CPU.UsageCoreNanoSeconds
		if got != uint64(want) || got < last {
			t.Errorf("pod: %s after %s, want %s", time.Duration(got), time.Duration(last), want)
		}
		last = got
	}
	m.run("web", "app", "a0", 0, 10*time.Second, 1)
	m.run("web", "side", "b0", 0, 5*time.Second, 1)
	reads(15 * time.Second)
	m.containers.stats["a0"] = said("a0", 9*time.Second, 1) // less than before
	reads(15 * time.Second)
	saved := m.containers.stats["b0"]
	delete(m.containers.stats, "b0") // not measured, once
	reads(15 * time.Second)
	m.containers.stats["b0"] = saved
	reads(15 * time.Second)
	for attempt := uint32(1); attempt < 50; attempt++ { // the other goes on
		m.end(fmt.Sprint("a", attempt-1))
		m.run("web", "app", fmt.Sprint("a", attempt), attempt, time.Second, 1)
		reads(time.Duration(15+attempt) * time.Second)
	}
	m.end("a49")
	reads(64 * time.Second)
	if n := len(s.past.sums["uid-web"].last); n != 1 {
		t.Errorf("%d containers are remembered", n)
	}
}

// TestRates (KV1): a rate is of the last 10 to 20 s, or of the time between scrapes if that is longer;
// scrapes right after one another do not change it; after the clock was set it begins again.
func TestRates(t *testing.T) {
	h := newHistory()
	at, clock := time.Unix(5000, 0), &elapsedtest.Clock{}
	var passed time.Duration
	rate := func(after, set time.Duration, value uint64) string {
		at, passed, clock.Slept = at.Add(after+set), passed+after, clock.Slept+set
		h.begin(clock.Now().Add(passed))
		_, r := h.rate("c", at, value)
		h.end()
		if r == nil {
			return "none"
		}
		return fmt.Sprint(*r)
	}
	for i, c := range []struct {
		after, set time.Duration
		value      uint64
		want       string
	}{
		{0, 0, 100, "none"},
		{100 * time.Millisecond, 0, 500, "none"},
		{4900 * time.Millisecond, 0, 1100, "200"}, // 1000 in 5 s
		{5 * time.Second, 0, 2100, "200"},
		{15 * time.Second, 0, 2850, "50"}, // since the scrape before
		{10 * time.Millisecond, 0, 2850, "49"},
		{time.Minute, 0, 4650, "29"},
		{0, -time.Hour, 4650, "29"}, // until there is another
		{10 * time.Second, 0, 5350, "70"},
		{15 * time.Second, 8 * time.Hour, 6100, "70"}, // the same
		{10 * time.Second, 0, 6600, "50"},
		{15 * time.Second, -2 * time.Second, 7350, "50"}, // back by less than the window
		{10 * time.Second, 0, 8350, "100"},
	} {
		if got := rate(c.after, c.set, c.value); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
}

// TestRateOfTheRuntime (KV1): it counts until the source has its own, if it is not 0.
func TestRateOfTheRuntime(t *testing.T) {
	m := newMachine(t, true)
	m.pod("web")
	m.run("web", "app", "c1", 0, time.Second, 1)
	m.run("web", "new", "c2", 0, time.Second, 1)
	m.containers.stats["c1"].Cpu.UsageNanoCores.Value = 7
	s := m.source(func(o *Options) { o.MaxAge = -1 })
	rates := func() [2]string {
		t.Helper()
		summary, err := s.Summary(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		var out [2]string
		for i, c := range summary.Pods[0].Containers {
			out[i] = "none"
			if c.CPU.UsageNanoCores != nil {
				out[i] = fmt.Sprint(*c.CPU.UsageNanoCores)
			}
		}
		return out
	}
	if got := rates(); got != [2]string{"7", "none"} {
		t.Errorf("at first: %v", got)
	}
	for _, c := range m.containers.stats { // 2 s later
		c.Cpu.Timestamp += int64(2 * time.Second)
		c.Cpu.UsageCoreNanoSeconds.Value += 1000
	}
	if got := rates(); got != [2]string{"500", "500"} {
		t.Errorf("later: %v", got)
	}
}

// TestNothingIsLeftOfThoseGone (KV3): 1,000 pods that come and go leave nothing in memory.
func TestNothingIsLeftOfThoseGone(t *testing.T) {
	m := newMachine(t, true)
	clock := clocktesting.NewFakeClock(time.Unix(5000, 0))
	s := m.source(func(o *Options) { o.Clock = clock })
	for generation := range 100 {
		m.engine.pods, m.containers.sandboxes = nil, nil
		for _, c := range m.containers.list {
			delete(m.containers.stats, c.GetId())
		}
		m.containers.list = nil
		for i := range 10 {
			name := fmt.Sprintf("p%d-%d", generation, i)
			m.pod(name)
			m.run(name, "app", "c-"+name, 0, time.Second, 1)
		}
		clock.Step(15 * time.Second)
		if _, err := s.Summary(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	// Of 10 pods: each has a counter, its container too, beside the node and this process.
	if len(s.past.counters) != 22 || len(s.past.sums) != 10 || len(s.paths) != 20 {
		t.Errorf("%d counters, %d sums, %d paths", len(s.past.counters), len(s.past.sums), len(s.paths))
	}
}
