package cgroupname_test

import (
	"path"
	"strings"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods/internal/cgroupname"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spec/runtime.md 3.3.
func TestPodPathFollowsTheDriver(t *testing.T) {
	for _, tc := range []struct {
		parent  string
		systemd bool
		class   v1.PodQOSClass
		want    string
	}{
		{"kubepods", false, v1.PodQOSGuaranteed, "kubepods/podab-cd"},
		{"kubepods", false, v1.PodQOSBurstable, "kubepods/burstable/podab-cd"},
		{"kubepods", false, v1.PodQOSBestEffort, "kubepods/besteffort/podab-cd"},
		{"a/b-c/kubepods", false, v1.PodQOSBurstable, "a/b-c/kubepods/burstable/podab-cd"},
		{"kubepods", true, v1.PodQOSGuaranteed, "kubepods.slice/kubepods-podab_cd.slice"},
		{"kubepods", true, v1.PodQOSBurstable, "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab_cd.slice"},
		{"b-c/kubepods", true, v1.PodQOSGuaranteed, "b_c.slice/b_c-kubepods.slice/b_c-kubepods-podab_cd.slice"},
	} {
		s := cgroupname.Scheme{Parent: strings.Split(tc.parent, "/"), Systemd: tc.systemd}
		level, err := cgroupname.LevelOf(tc.class)
		if err != nil {
			t.Fatal(err)
		}
		got := s.Pod(level, "ab-cd")
		if got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
		if uid, ok := s.UID(level, path.Base(got)); !ok || uid != types.UID("ab-cd") {
			t.Errorf("%s is of pod %q, %t", got, uid, ok)
		}
	}
}

func TestLevelsAreNoPods(t *testing.T) {
	for _, systemd := range []bool{false, true} {
		s := cgroupname.Scheme{Parent: []string{"kubepods"}, Systemd: systemd}
		for _, level := range cgroupname.Levels() {
			for _, folder := range []string{path.Base(s.Level(level)), "pod", "podx.scope", "other", ""} {
				if uid, ok := s.UID(cgroupname.Guaranteed, folder); ok && (systemd || folder != "podx.scope") {
					t.Errorf("%q is of pod %q", folder, uid)
				}
			}
		}
	}
	if _, err := cgroupname.LevelOf("Other"); err == nil {
		t.Error("a class that does not exist has a level")
	}
}
