package node

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

func loggedPod(status v1.ContainerStatus) *v1.Pod {
	status.Name = "app"
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", UID: "uid"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: "other"}}},
		Status:     v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{status}},
	}
}

// Which run's log is shown, and why none is, in the kubelet's words (spec/runtime.md 27.7).
func TestRunOfLog(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	terminated := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
	}
	waiting := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	for _, tc := range []struct {
		name      string
		container string
		previous  bool
		status    v1.ContainerStatus
		want      containerRun
		err       string
	}{
		{"running", "app", false, v1.ContainerStatus{State: running, ContainerID: "f://2", RestartCount: 2}, containerRun{"f://2", 2}, ""},
		{"ended", "app", false, v1.ContainerStatus{State: terminated("f://2"), ContainerID: "f://2", RestartCount: 2}, containerRun{"f://2", 2}, ""},
		{
			"crash loop shows the last run", "app", false,
			v1.ContainerStatus{State: waiting("CrashLoopBackOff"), LastTerminationState: terminated("f://1"), RestartCount: 1},
			containerRun{"f://1", 1},
			"",
		},
		{
			"previous of a running one", "app", true,
			v1.ContainerStatus{State: running, ContainerID: "f://2", LastTerminationState: terminated("f://1"), RestartCount: 2},
			containerRun{"f://1", 1},
			"",
		},
		{
			"previous of a waiting one", "app", true,
			v1.ContainerStatus{State: waiting("CrashLoopBackOff"), LastTerminationState: terminated("f://1"), RestartCount: 1},
			containerRun{"f://1", 1},
			"",
		},
		{"no previous", "app", true, v1.ContainerStatus{State: running, ContainerID: "f://0"}, containerRun{}, `previous terminated container "app" in pod "pod" not found`},
		{"waiting", "app", false, v1.ContainerStatus{State: waiting("ContainerCreating")}, containerRun{}, `container "app" in pod "pod" is waiting to start: ContainerCreating`},
		{"pulling", "app", false, v1.ContainerStatus{State: waiting("ErrImagePull")}, containerRun{}, `is waiting to start: trying and failing to pull image`},
		{"no state", "app", false, v1.ContainerStatus{}, containerRun{}, `is waiting to start: no logs yet`},
		{"never started", "app", false, v1.ContainerStatus{State: terminated("")}, containerRun{}, `is terminated`},
		{"no status", "other", false, v1.ContainerStatus{}, containerRun{}, `container "other" in pod "pod" is not available`},
		{"unknown", "typo", false, v1.ContainerStatus{}, containerRun{}, `container "typo" not found in pod "pod"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := runOf(loggedPod(tc.status), tc.container, tc.previous)
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%v, %v; want %v, %q", got, err, tc.want, tc.err)
			}
			want := runtime.ErrFailedPrecondition
			if tc.container == "typo" {
				want = runtime.ErrNotFound
			}
			if err != nil && !errors.Is(err, want) {
				t.Errorf("%v is not %v", err, want)
			}
		})
	}
}

// The log is read where the runtime says, if that is below the log directory, and at the usual place
// when the runtime has forgotten the container.
func TestPlaceOfLog(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "ns_pod_uid", "app")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"0.log": "zero", "1.log": "one"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("2026-01-02T03:04:05Z stdout F "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pod := loggedPod(v1.ContainerStatus{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}, ContainerID: "f://1", RestartCount: 1})
	path := filepath.Join(folder, "0.log")
	var failed error
	l := &Logs{
		Pod: func(uid types.UID) (*v1.Pod, bool) { return pod, uid == "uid" },
		View: func(types.UID) (*runtime.PodStatus, error) {
			return &runtime.PodStatus{UID: "uid", Containers: []*runtime.ContainerStatus{{
				ID: runtime.ContainerID{Runtime: "f", ID: "1"}, Name: "app", State: runtime.Exited, LogPath: path,
			}}}, failed
		},
		Dir: root, Reader: containerlog.New(root, nil),
	}
	show := func(uid types.UID, options containerlog.Options) (string, error) {
		var out bytes.Buffer
		err := l.Copy(t.Context(), uid, "app", options, &out)
		return out.String(), err
	}
	if got, err := show("uid", containerlog.Options{Follow: true}); got != "zero\n" || err != nil {
		t.Errorf("where the runtime says: %q, %v", got, err)
	}
	for _, elsewhere := range []string{"/etc/passwd", root + "/../x/y/z", filepath.Join(root, "ns_pod_uid", "0.log")} {
		path = elsewhere
		if got, err := show("uid", containerlog.Options{}); !errors.Is(err, runtime.ErrFailedPrecondition) {
			t.Errorf("%s: %q, %v", elsewhere, got, err)
		}
	}
	path = ""
	if got, err := show("uid", containerlog.Options{}); got != "one\n" || err != nil {
		t.Errorf("the usual place: %q, %v", got, err)
	}
	failed = errors.New("not read")
	if got, err := show("uid", containerlog.Options{}); got != "one\n" || err != nil {
		t.Errorf("runtime away: %q, %v", got, err)
	}
	gone := `container "app" in pod "pod" has no log: it was removed with the container, or never written: `
	for _, removed := range []string{filepath.Join(folder, "1.log"), folder, root} {
		if err := os.RemoveAll(removed); err != nil {
			t.Fatal(err)
		}
		for _, options := range []containerlog.Options{{}, {Previous: false, Tail: new(int64)}} {
			if got, err := show("uid", options); got != "" || !errors.Is(err, runtime.ErrFailedPrecondition) || !strings.HasPrefix(err.Error(), gone) {
				t.Errorf("without %s: %q, %v", removed, got, err)
			}
		}
	}
	if _, err := show("other", containerlog.Options{}); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("unknown pod: %v", err)
	}
	if _, err := show("uid", containerlog.Options{Stream: "x"}); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("bad option: %v", err)
	}
}
