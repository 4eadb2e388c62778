package main

import (
	"strings"
	"testing"

	"github.com/podwright/podwright/runtime/pods"
)

func TestLogOptions(t *testing.T) {
	manifests := t.TempDir()
	for _, tc := range []struct {
		args, problem string
		want          pods.LogRotation
	}{
		{"", "", pods.LogRotation{MaxSize: 10 << 20, MaxFiles: 5}},
		{"--container-log-max-size=64Ki --container-log-max-files=2", "", pods.LogRotation{MaxSize: 64 << 10, MaxFiles: 2}},
		{"--container-log-max-size=0", "", pods.LogRotation{MaxSize: -1, MaxFiles: 5}},
		{"--container-log-max-size=-1", "", pods.LogRotation{MaxSize: -1, MaxFiles: 5}},
		{"--container-log-max-size=big", "--container-log-max-size", pods.LogRotation{}},
		{"--container-log-max-files=1", "--container-log-max-files", pods.LogRotation{}},
	} {
		o, err := parse(append(strings.Fields(tc.args), "--manifests", manifests, "--root", manifests))
		switch {
		case tc.problem != "":
			if err == nil || !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("%s: err %v", tc.args, err)
			}
		case err != nil || o.logs.rotation != tc.want:
			t.Errorf("%s: %+v, err %v", tc.args, o.logs.rotation, err)
		}
	}
}
