package meta_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spec/runtime.md 2.5: the published vectors.
func TestHashVectors(t *testing.T) {
	for _, tc := range []struct{ name, image, want string }{
		{"a", "b", "646fef1b"},
		{"foo", "bar", "11a6d6d6"},
		{"nginx", "nginx:1.25", "5d0e8bc9"},
		{"test_container", "foo/image:v1", "8e45cbd0"},
		{"x", `a<b>&"c`, "ce042a44"},
	} {
		c := &v1.Container{Name: tc.name, Image: tc.image}
		if got := fmt.Sprintf("%x", meta.Hash(c)); got != tc.want {
			t.Errorf("2.5 Hash(%q, %q) = %s, want %s", tc.name, tc.image, got, tc.want)
		}
		c.Command = []string{"other"}
		c.Env = []v1.EnvVar{{Name: "A", Value: "1"}}
		if got := fmt.Sprintf("%x", meta.Hash(c)); got != tc.want {
			t.Errorf("2.5 only name and image count, got %s, want %s", got, tc.want)
		}
	}
}

// The streamed sum equals the one over the text the rule describes, for any
// string, also with control characters and broken UTF-8.
func TestHashMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		}))
		c := &v1.Container{Name: text.Draw(t, "name"), Image: text.Draw(t, "image")}
		j, err := json.Marshal(struct {
			Image string `json:"image"`
			Name  string `json:"name"`
		}{c.Image, c.Name})
		if err != nil {
			t.Fatal(err)
		}
		values := make([]string, len(j))
		for i, b := range j {
			values[i] = fmt.Sprint(b)
		}
		sum := fnv.New32a()
		fmt.Fprintf(sum, "([]uint8)[%s]", strings.Join(values, " "))
		if got := meta.Hash(c); got != uint64(sum.Sum32()) {
			t.Fatalf("Hash = %x, want %x", got, sum.Sum32())
		}
	})
}

func TestHashAllocatesNothing(t *testing.T) {
	c := &v1.Container{Name: "app", Image: "registry.example.com/team/app:v1.2.3"}
	if n := testing.AllocsPerRun(100, func() { meta.Hash(c) }); n != 0 {
		t.Errorf("Hash allocates %v times", n)
	}
}

func BenchmarkHash(b *testing.B) {
	c := &v1.Container{Name: "app", Image: "registry.example.com/team/app:v1.2.3"}
	for b.Loop() {
		meta.Hash(c)
	}
}

func testPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "ns", UID: "u1",
			Labels: map[string]string{"app": "x", runtime.LabelPodName: "lie", runtime.LabelOwner: "lie"},
		},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, TerminationGracePeriodSeconds: ptr.To[int64](7)},
	}
}

func TestEngineLabelsWinOverThePods(t *testing.T) {
	pod := testPod()
	want := map[string]string{
		"app": "x", "io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u1",
		"podwright.io/owner": "me",
	}
	if d := cmp.Diff(want, meta.SandboxLabels(pod, "me")); d != "" {
		t.Errorf("2.1 ours win in sandbox labels (-want +got):\n%s", d)
	}
	if got, ok := meta.SandboxLabels(pod, "")["podwright.io/owner"]; ok {
		t.Errorf("1.9 a pod label claims owner %q", got)
	}
	want = map[string]string{
		"io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u1",
		"io.kubernetes.container.name": "c",
	}
	if d := cmp.Diff(want, meta.ContainerLabels(pod, "c", "")); d != "" {
		t.Errorf("2.1 exactly four keys (-want +got):\n%s", d)
	}
}

// spec/runtime.md 2.2, 2.6: what is written comes back.
func TestAnnotationsRoundTrip(t *testing.T) {
	pod := testPod()
	pod.DeletionGracePeriodSeconds = ptr.To[int64](3)
	c := &v1.Container{
		Name: "c", Image: "i",
		Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 80}},
		Lifecycle: &v1.Lifecycle{
			PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye", "now"}}},
		},
	}
	a := meta.ContainerAnnotations(meta.Described{Pod: pod, Container: c, Kind: meta.Sidecar, Index: 2, RestartCount: 4})
	for key, want := range map[string]string{
		"io.kubernetes.container.restartCount":             "4",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.container.hash":                     fmt.Sprintf("%x", meta.Hash(c)),
		"io.kubernetes.pod.deletionGracePeriod":            "3",
		"io.kubernetes.pod.terminationGracePeriod":         "7",
		"podwright.io/pod.restart-policy":                  "OnFailure",
	} {
		if a[key] != want {
			t.Errorf("2.2 %s = %q, want %q", key, a[key], want)
		}
	}
	got, err := meta.Restore(a)
	want := meta.Restored{
		DeletionGrace: ptr.To[int64](3), TerminationGrace: ptr.To[int64](7),
		PreStop: c.Lifecycle.PreStop, Ports: c.Ports, TerminationPath: "/dev/termination-log",
		Kind: meta.Sidecar, Index: 2,
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("2.6 restore: err %v (-want +got):\n%s", err, d)
	}
}

func TestAnnotationsOptional(t *testing.T) {
	pod := testPod()
	pod.Spec.TerminationGracePeriodSeconds = nil
	a := meta.ContainerAnnotations(meta.Described{Pod: pod, Container: &v1.Container{Name: "c"}, Kind: meta.App})
	for _, key := range []string{
		meta.AnnotationPreStopHandler, meta.AnnotationPorts,
		meta.AnnotationPodDeletionGrace, meta.AnnotationPodTerminationGrace,
	} {
		if v, ok := a[key]; ok {
			t.Errorf("2.2 %s = %q written without a reason", key, v)
		}
	}
}

// spec/runtime.md 2.3: broken values read as nothing and are named.
func TestRestoreMalformed(t *testing.T) {
	got, err := meta.Restore(map[string]string{
		meta.AnnotationPodDeletionGrace:    "soon",
		meta.AnnotationPodTerminationGrace: "9",
		meta.AnnotationPreStopHandler:      "{",
		meta.AnnotationPorts:               "[1]",
		meta.AnnotationKind:                "boss",
	})
	want := meta.Restored{TerminationGrace: ptr.To[int64](9), Kind: meta.App, Index: -1}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("2.3 (-want +got):\n%s", d)
	}
	for _, key := range []string{meta.AnnotationPodDeletionGrace, meta.AnnotationPreStopHandler, meta.AnnotationPorts} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("2.3 error %v does not name %s", err, key)
		}
	}
}

func TestChangedComparesHashesOfOneVersion(t *testing.T) {
	c := &v1.Container{Name: "c", Image: "i"}
	record := &runtime.ContainerStatus{Name: "c", Hash: meta.Hash(c)}
	if meta.Changed(c, record) {
		t.Error("2.5 same definition counts as changed")
	}
	record.Hash = 0
	if !meta.Changed(c, record) {
		t.Error("2.3 a missing hash must differ")
	}
	record.Annotations = map[string]string{meta.AnnotationHashVersion: "2"}
	if meta.Changed(c, record) {
		t.Error("a hash of another version cannot be compared and must not restart anything")
	}
}

func ExampleHash() {
	fmt.Printf("%x\n", meta.Hash(&v1.Container{Name: "nginx", Image: "nginx:1.25"}))
	// Output: 5d0e8bc9
}
