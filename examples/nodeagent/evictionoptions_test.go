package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/cleanup/eviction"
)

func TestEvictionOptions(t *testing.T) {
	parseWith := func(args ...string) (options, error) {
		return parse(append([]string{"--manifests", t.TempDir(), "--root", t.TempDir()}, args...))
	}
	o, err := parseWith()
	bySignal := func(all []eviction.Threshold) map[eviction.Signal]eviction.Threshold {
		m := map[eviction.Signal]eviction.Threshold{}
		for _, t := range all {
			m[t.Signal] = t
		}
		return m
	}
	if err != nil || !reflect.DeepEqual(bySignal(o.eviction.config("").Policy.Thresholds), bySignal(eviction.DefaultThresholds())) {
		t.Errorf("the default: %+v, %v", o.eviction.config(""), err)
	}
	o, err = parseWith("--eviction-hard", "")
	if err != nil || o.eviction.config("") != nil {
		t.Errorf("without limits: %+v, %v", o.eviction.config(""), err)
	}
	o, err = parseWith("--eviction-hard", "memory.available<100Mi", "--eviction-soft", "memory.available<200Mi",
		"--eviction-soft-grace-period", "memory.available=1m30s", "--eviction-max-pod-grace-period", "10s")
	if err != nil {
		t.Fatal(err)
	}
	c := o.eviction.config("kubepods")
	if len(c.Policy.Thresholds) != 2 || c.Policy.Thresholds[1].Grace != 90*time.Second || c.Policy.MaxPodGrace != 10*time.Second || c.Cgroup != "kubepods" {
		t.Errorf("configuration %+v", c)
	}
	for _, args := range [][]string{{"--eviction-hard", "memory<1"}, {"--eviction-soft", "memory.available<1"}, {"--eviction-max-pod-grace-period", "-1s"}} {
		if _, err := parseWith(args...); err == nil || !strings.Contains(err.Error(), "--eviction-") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
