package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// A volume in memory lives as long as the pod's containers may start, even over restarts of the
// agent. It is released when they have ended for good, although the pod is still desired. A deleted
// pod leaves no folder (cleanup.md 4, 5).
func TestVolumesEndWithThePod(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			if l.PodName == "job" {
				return fake.Script{Exit: &fake.Exit{After: 30 * time.Second}}
			}
			return fake.Script{}
		}})
		root := t.TempDir()
		memory := func(name string) *v1.Pod {
			p := newPod(name, "app")
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			p.Spec.Volumes = []v1.Volume{{Name: "m", VolumeSource: v1.VolumeSource{
				EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory},
			}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "m", MountPath: "/m"}}
			return p
		}
		job, web := memory("job"), memory("web")
		mounts := func() (list []string) {
			table, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil {
				t.Error(err)
			}
			for line := range strings.Lines(string(table)) {
				if fields := strings.Fields(line); strings.HasPrefix(fields[4], root+"/") {
					list = append(list, fields[4])
				}
			}
			return list
		}
		want := func(n int) func() error {
			return func() error {
				if got := mounts(); len(got) != n {
					return fmt.Errorf("mounts %v, want %d", got, n)
				}
				return nil
			}
		}
		r := newRig(t, rt, root).start()
		r.set(job, web)
		r.phase(job.UID, v1.PodRunning, 10*time.Second)
		r.phase(web.UID, v1.PodRunning, 10*time.Second)
		r.within(0, "two volumes", want(2))
		file := filepath.Join(mounts()[0], "f")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.stop()
		if _, err := os.Stat(file); err != nil {
			t.Errorf("after the agent's end: %v", err)
		}
		r = newRig(t, rt, root).start()
		r.set(job, web)
		r.phase(job.UID, v1.PodSucceeded, time.Minute)
		r.within(5*time.Second, "the job's memory is given back", want(1))
		r.set()
		r.empty(time.Minute)
		r.within(10*time.Second, "nothing on disk", func() error {
			entries, err := os.ReadDir(filepath.Join(root, "pods"))
			if len(entries) > 0 {
				err = fmt.Errorf("folders %v", entries)
			}
			return errors.Join(err, want(0)())
		})
	})
}
