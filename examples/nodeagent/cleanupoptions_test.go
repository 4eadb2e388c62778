package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/imagegc"
)

// TestDeadContainersOptions: cleanup.md CG1, edge case 20: what an operator can say
// about dead containers reaches the engine, and what it could not mean is refused.
func TestDeadContainersOptions(t *testing.T) {
	root := t.TempDir()
	for _, tc := range []struct {
		args, problem string
		want          podwright.DeadContainers
	}{
		{"", "", podwright.DeadContainers{PerName: 1, Total: -1}},
		{"--dead-containers-per-name=3 --dead-containers-total=50 --dead-containers-min-age=1h", "", podwright.DeadContainers{PerName: 3, Total: 50, MinAge: time.Hour}},
		{"--dead-containers-per-name=-1", "", podwright.DeadContainers{PerName: -1, Total: -1}},
		{"--dead-containers-per-name=0", "--dead-containers-per-name 0", podwright.DeadContainers{}},
		{"--dead-containers-total=0", "--dead-containers-total 0", podwright.DeadContainers{}},
		{"--dead-containers-min-age=-1s", "--dead-containers-min-age -1s", podwright.DeadContainers{}},
	} {
		o, err := parse(append(strings.Fields(tc.args), "--manifests", root, "--root", root))
		switch {
		case tc.problem != "":
			if err == nil || !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("%s: err %v", tc.args, err)
			}
		case err != nil || o.dead.config() != tc.want:
			t.Errorf("%s: %+v, err %v", tc.args, o.dead.config(), err)
		}
	}
}

// TestImageOptions: cleanup.md IG1: the same for images.
func TestImageOptions(t *testing.T) {
	root := t.TempDir()
	minutes := imagegc.DefaultPeriod
	for _, tc := range []struct {
		args, problem string
		want          *podwright.ImageGC
	}{
		{"", "", nil},
		{"--image-gc-high=85", "", &podwright.ImageGC{Policy: imagegc.Policy{HighPercent: 85, LowPercent: 80, MinAge: imagegc.DefaultMinAge}, Period: minutes}},
		{"--image-gc-high=3", "", &podwright.ImageGC{Policy: imagegc.Policy{HighPercent: 3, LowPercent: 1, MinAge: imagegc.DefaultMinAge}, Period: minutes}},
		{"--image-gc-high=85 --image-gc-low=40 --image-gc-min-age=0 --image-gc-period=1m", "", &podwright.ImageGC{Policy: imagegc.Policy{HighPercent: 85, LowPercent: 40, MinAge: -1}, Period: time.Minute}},
		{"--image-gc-max-age=24h", "", &podwright.ImageGC{Policy: imagegc.Policy{HighPercent: 100, LowPercent: 95, MinAge: imagegc.DefaultMinAge, MaxAge: 24 * time.Hour}, Period: minutes}},
		{"--image-gc-high=101", "--image-gc-high 101", nil},
		{"--image-gc-high=-1", "--image-gc-high -1", nil},
		{"--image-gc-low=10", "without --image-gc-high", nil},
		{"--image-gc-high=50 --image-gc-low=60", "--image-gc-low 60 is above", nil},
		{"--image-gc-high=85 --image-gc-min-age=-1s", "--image-gc-min-age -1s", nil},
		{"--image-gc-max-age=-1s", "--image-gc-max-age -1s", nil},
		{"--image-gc-period=0", "--image-gc-period 0s", nil},
		{"--image-gc-high=85 --runtime=process", "need a CRI runtime", nil},
		{"--image-gc-max-age=1h --runtime=process", "need a CRI runtime", nil},
	} {
		args := append([]string{"--manifests", root, "--root", root, "--runtime", "unix:///none"}, strings.Fields(tc.args)...)
		o, err := parse(args)
		switch {
		case tc.problem != "":
			if err == nil || !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("%s: err %v", tc.args, err)
			}
		case err != nil || !reflect.DeepEqual(o.images.config(), tc.want):
			t.Errorf("%s: %+v, err %v", tc.args, o.images.config(), err)
		}
	}
}
