package payload_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/payload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// objects has config map "c" and secret "s", and fails for "broken".
type objects struct{}

func (objects) ConfigMap(_ context.Context, name string) (*v1.ConfigMap, error) {
	switch name {
	case "c":
		return &v1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"bin": {0xff}}}, nil
	case "evil":
		return &v1.ConfigMap{Data: map[string]string{"../x": "1"}}, nil
	}
	return nil, fail("config map", name)
}

func (objects) Secret(_ context.Context, name string) (*v1.Secret, error) {
	if name == "s" {
		return &v1.Secret{Data: map[string][]byte{"key": []byte("hidden")}}, nil
	}
	return nil, fail("secret", name)
}

func fail(what, name string) error {
	if name == "broken" {
		return errors.New("the store is down")
	}
	return fmt.Errorf("%s %s: %w", what, name, runtime.ErrNotFound)
}

func ref(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

func configMap(name string, change ...func(*v1.ConfigMapVolumeSource)) v1.VolumeSource {
	s := &v1.ConfigMapVolumeSource{LocalObjectReference: ref(name)}
	for _, c := range change {
		c(s)
	}
	return v1.VolumeSource{ConfigMap: s}
}

func field(path, fieldPath string) v1.DownwardAPIVolumeFile {
	return v1.DownwardAPIVolumeFile{Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: fieldPath}}
}

func TestFilesOfEverySource(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "ns", UID: "u", Labels: map[string]string{"b": "x\ny", "a": "1"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Mi")},
		}}}},
	}
	items := func(items ...v1.KeyToPath) func(*v1.ConfigMapVolumeSource) {
		return func(s *v1.ConfigMapVolumeSource) { s.Items = items }
	}
	optional := func(s *v1.ConfigMapVolumeSource) { s.Optional = ptr.To(true) }
	for _, tc := range []struct {
		name   string
		source v1.VolumeSource
		want   string // path=mode:content, sorted
		err    string
	}{
		{"all keys", configMap("c"), "a=644:1 b=644:2 bin=644:\xff", ""},
		{"default mode", configMap("c", func(s *v1.ConfigMapVolumeSource) { s.DefaultMode = ptr.To[int32](0o440) }), "a=440:1 b=440:2 bin=440:\xff", ""},
		{"items", configMap("c", items(v1.KeyToPath{Key: "a", Path: "x/y"}, v1.KeyToPath{Key: "b", Path: "z", Mode: ptr.To[int32](0o400)})), "x/y=644:1 z=400:2", ""},
		{"missing key", configMap("c", items(v1.KeyToPath{Key: "no", Path: "x"})), "", `config map "c" has no key "no"`},
		{"optional key", configMap("c", optional, items(v1.KeyToPath{Key: "no", Path: "x"}, v1.KeyToPath{Key: "a", Path: "y"})), "y=644:1", ""},
		{"missing", configMap("no"), "", "config map no"},
		{"optional", configMap("no", optional), "", ""},
		{"optional, but the store fails", configMap("broken", optional), "", "the store is down"},
		{"a key that is a path", configMap("evil"), "", "cannot be the name of a file"},
		{"an item that leaves", configMap("c", items(v1.KeyToPath{Key: "a", Path: "../x"})), "", "must not contain '..'"},
		{"an absolute item", configMap("c", items(v1.KeyToPath{Key: "a", Path: "/x"})), "", "must be relative"},
		{"a mode that is none", configMap("c", func(s *v1.ConfigMapVolumeSource) { s.DefaultMode = ptr.To[int32](0o4755) }), "", "not between 0 and 0777"},
		{"secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}, "key=644:hidden", ""},
		{"missing secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "no"}}, "", "secret no"},
		{"downward", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			field("labels", "metadata.labels"), field("one", "metadata.labels['a']"), field("who", "metadata.name"), field("none", "metadata.annotations"),
			{Path: "mem", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "app", Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}},
		}}}, "labels=644:a=\"1\"\nb=\"x\\ny\" mem=644:8 none=644: one=644:1 who=644:web", ""},
		{"downward of the node", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{field("x", "status.podIP")}}}, "", "fields of metadata only"},
		{"downward of no container", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "mem", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "x", Resource: "limits.memory"}},
		}}}, "", `no container "x"`},
		{"downward of nothing", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{{Path: "x"}}}}, "", "neither fieldRef"},
		{"projected", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o600), Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: ref("c"), Items: []v1.KeyToPath{{Key: "a", Path: "p"}}}},
			{Secret: &v1.SecretProjection{LocalObjectReference: ref("s")}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{field("p", "metadata.uid")}}},
			{Secret: &v1.SecretProjection{LocalObjectReference: ref("no"), Optional: ptr.To(true)}},
		}}}, "key=600:hidden p=600:u", ""},
		{"a token", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}, "", "serviceAccountToken needs an API server"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := &v1.Volume{Name: "v", VolumeSource: tc.source}
			if !payload.Handles(v) {
				t.Error("not handled")
			}
			files, err := payload.Files(t.Context(), payload.Input{Pod: pod, Objects: objects{}, Down: criconfig.Downward{}}, v)
			if (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("err %v, want %q", err, tc.err)
			}
			if err != nil && strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error tells the secret: %v", err)
			}
			var got []string
			for _, path := range slices.Sorted(maps.Keys(files)) {
				got = append(got, fmt.Sprintf("%s=%o:%s", path, files[path].Mode, files[path].Data))
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("files %q, want %q", s, tc.want)
			}
		})
	}
}

func TestHoldsSecrets(t *testing.T) {
	projected := func(p v1.VolumeProjection) v1.VolumeSource {
		return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{p}}}
	}
	for i, tc := range []struct {
		source v1.VolumeSource
		want   bool
	}{
		{configMap("c"), false},
		{v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}, true},
		{projected(v1.VolumeProjection{Secret: &v1.SecretProjection{}}), true},
		{projected(v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{}}), false},
		{projected(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{}}), true},
		{projected(v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{}}), true},
		{projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}}), false},
	} {
		if got := payload.HoldsSecrets(&v1.Volume{VolumeSource: tc.source}); got != tc.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}

func ExampleFiles() {
	volume := &v1.Volume{VolumeSource: configMap("c")}
	files, err := payload.Files(context.Background(), payload.Input{Pod: &v1.Pod{}, Objects: objects{}}, volume)
	fmt.Println(string(files["a"].Data), err)
	// Output: 1 <nil>
}
