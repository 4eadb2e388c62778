package cleanup

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/internal/podinfo"
)

// TestMetrics is steps 11, 12, 14, 15, section 9 and OD8; edge 40: series go back to
// zero.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &instrumenttest.Meter{}
		n := newNode(t, func(o *Options) { o.Meter = m })
		n.want(newPod("a"), newPod("b", fromFile), newPod("ended", fromFile, phase(v1.PodFailed)),
			newPod("api", func(p *v1.Pod) { p.Annotations = map[string]string{podinfo.AnnotationSource: "api"} }))
		n.mirrors = []*v1.Pod{newPod("m")}
		n.workers["a"] = Worker{HasConfig: true}
		n.workers["api"] = Worker{HasConfig: true}
		n.workers["ended"] = Worker{State: WorkerTerminated, HasConfig: true, Static: true}
		n.runs["orphan"] = true
		n.podDirs["ok"], n.podDirs["bad"], n.podDirs["a"] = true, true, true
		n.removeErr["folder bad"] = errors.New("busy")
		_ = n.try()
		want := map[string]float64{
			"kubelet_desired_pods{static=}": 2, "kubelet_desired_pods{static=true}": 2,
			"kubelet_active_pods{static=}": 2, "kubelet_active_pods{static=true}": 1,
			"kubelet_mirror_pods":                       1,
			"kubelet_restarted_pods_total{static=true}": 1, "kubelet_orphaned_runtime_pods_total": 1,
			"kubelet_orphan_pod_cleaned_volumes": 2, "kubelet_orphan_pod_cleaned_volumes_errors": 1,
		}
		for _, s := range workingSeries() {
			want["kubelet_working_pods{config="+s.config+",lifecycle="+s.lifecycle+",static="+s.static+"}"] = 0
		}
		want["kubelet_working_pods{config=desired,lifecycle=sync,static=}"] = 2
		want["kubelet_working_pods{config=desired,lifecycle=sync,static=true}"] = 1
		want["kubelet_working_pods{config=desired,lifecycle=terminated,static=true}"] = 1
		want["kubelet_working_pods{config=runtime_only,lifecycle=terminating,static=unknown}"] = 1
		if diff := cmp.Diff(want, m.Sums()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		n.want()
		n.mirrors, n.podDirs = nil, map[types.UID]bool{}
		clear(n.workers)
		clear(n.runs)
		_ = n.try()
		for name, v := range m.Sums() {
			if v != 0 && name != "kubelet_restarted_pods_total{static=true}" && name != "kubelet_orphaned_runtime_pods_total" {
				t.Errorf("%s is %v on an empty node", name, v)
			}
		}
	})
}

// TestActionsAreLogged: every action leaves a line with its reason.
func TestActionsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		n := newNode(t, func(o *Options) {
			o.Logger = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		})
		n.want(newPod("a"))
		n.runs["b"], n.podDirs["c"] = true, true
		n.pass(t, "a pass", "restart a", "kill b", "remove folder c")
		want := []string{
			`"level"=0 "msg"="Housekeeping" "action"="restart" "object"="ns/a" "uid"="a" "reason"="desired, but without a worker"`,
			`"level"=0 "msg"="Housekeeping" "action"="kill orphan" "object"="ns/b" "uid"="b" "reason"="is running but not known"`,
			`"level"=0 "msg"="Housekeeping" "action"="remove pod folder" "object"="c" "uid"="c" "reason"="no pod has this folder"`,
		}
		if diff := cmp.Diff(want, slices.Clone(lines)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
