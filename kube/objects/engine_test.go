package objects_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// mounting makes a pod that mounts config maps: "wanted", and "wished" which is optional.
func mounting() *v1.Pod {
	volume := func(name string, optional *bool) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
			LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: optional,
		}}}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web-1"},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{volume("wanted", nil), volume("wished", ptr.To(true))},
			Containers: []v1.Container{{Name: "app", Image: "example.com/app:1", VolumeMounts: []v1.VolumeMount{
				{Name: "wanted", MountPath: "/wanted"}, {Name: "wished", MountPath: "/wished"},
			}}},
		},
	}
}

// within waits until got returns want, and fails after limit of virtual time.
func within(t *testing.T, limit time.Duration, rule, want string, got func() string) {
	t.Helper()
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) {
		synctest.Wait()
		text := got()
		if text == want {
			return
		}
		if time.Since(began) > limit {
			t.Fatalf("%s: after %v %q, want %q", rule, limit, text, want)
		}
	}
}

// KO4, KO5, KO7: the files of a running pod follow its config maps within 2 s. The files of an
// optional one go with it, those of another stay until it is there again.
func TestFilesFollowConfigMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, root, pod := newAPI(t, configMap("wished", "a", "1")), t.TempDir(), mounting()
		store, err := objects.New(objects.Options{Client: a})
		if err != nil {
			t.Fatal(err)
		}
		rt, pods := fake.New(fake.Options{}), source.NewChannel(source.ChannelOptions{NodeName: "n1"})
		config := podwright.Config{Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "n1"}}
		config.Pods.Objects, config.Checkpoints.Reserve = store, -1
		engine, err := podwright.New(config)
		if err != nil {
			t.Fatal(err)
		}
		end := runs(t, engine.Run)
		defer end()
		store.Follow(pod)
		if err := pods.Set(t.Context(), []*v1.Pod{pod}); err != nil {
			t.Fatal(err)
		}
		files := func() string {
			var out []string
			for _, name := range []string{"wanted", "wished"} {
				text, err := os.ReadFile(filepath.Join(root, "pods/web-1/volumes/kubernetes.io~configmap", name, "key"))
				if err != nil {
					text = []byte("none")
				}
				out = append(out, string(text))
			}
			return strings.Join(out, " ")
		}
		<-time.After(30 * time.Second)
		within(t, 0, "KO6", "none a", files) // it waits for the object that does not exist
		a.put(configMap("wanted", "b", "1"))
		within(t, 2*time.Second, "KO4", "b a", files)
		<-time.After(5 * time.Minute)
		a.put(configMap("wanted", "c", "2"))
		within(t, 2*time.Second, "KO4", "c a", files)
		a.remove("wished")
		within(t, 2*time.Second, "KO5", "c none", files)
		a.remove("wanted")
		<-time.After(5 * time.Minute)
		within(t, 0, "KO5", "c none", files)
		for i, name := range []string{"wanted", "wished"} {
			again := configMap(name, fmt.Sprint("new", i), "1")
			again.UID = "another life"
			a.put(again)
		}
		within(t, 2*time.Second, "KO7", "new0 new1", files)
		a.refuse(fmt.Errorf("connection refused"))
		<-time.After(time.Hour)
		within(t, 0, "KO6", "new0 new1", files)
	})
}

// KO10, KO11: while services are not known pods of the API server wait, and static ones start; a pod
// waits for its runtime class. They start soon after both are known. A class that is deleted ends no pod that has it.
func TestPodsWaitForServicesAndClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, service("default", "kubernetes"))
		var engine *podwright.Engine
		o := objects.ListOptions{Client: a, Changed: func(o objects.Object) { engine.ObjectChanged(o) }}
		services, err := objects.NewServices(o)
		if err != nil {
			t.Fatal(err)
		}
		classes, err := objects.NewRuntimeClasses(o)
		if err != nil {
			t.Fatal(err)
		}
		rt, pods := fake.New(fake.Options{Handlers: []*runtimeapi.RuntimeHandler{{Name: "kata"}}}), source.NewChannel(source.ChannelOptions{Name: "api", NodeName: "n1"})
		static := source.NewChannel(source.ChannelOptions{Name: "file", NodeName: "n1"})
		config := podwright.Config{Runtime: rt, Images: rt, Sources: []syncloop.Source{pods, static}, RootDir: t.TempDir(), Node: podwright.Node{Name: "n1"}}
		config.Pods.Services, config.Pods.RuntimeClasses, config.Checkpoints.Reserve = services, classes, -1
		if engine, err = podwright.New(config); err != nil {
			t.Fatal(err)
		}
		a.refuse(fmt.Errorf("connection refused"))
		for _, run := range []func(context.Context) error{engine.Run, services.Run, classes.Run} {
			end := runs(t, run)
			defer end()
		}
		plain, special := mounting(), mounting()
		plain.Spec.Volumes, plain.Spec.Containers[0].VolumeMounts = nil, nil
		special.Spec.Volumes, special.Spec.Containers[0].VolumeMounts = nil, nil
		special.Name, special.UID, special.Spec.RuntimeClassName = "special", "special-1", ptr.To("sandboxed")
		if err := pods.Set(t.Context(), []*v1.Pod{plain, special}); err != nil {
			t.Fatal(err)
		}
		own := plain.DeepCopy()
		own.Name, own.UID = "static", "static-1"
		if err := static.Set(t.Context(), []*v1.Pod{own}); err != nil {
			t.Fatal(err)
		}
		phases := func() string {
			var out []string
			for _, pod := range []*v1.Pod{own, plain, special} {
				phase := "?"
				for _, p := range engine.Pods() {
					if p.UID == pod.UID {
						phase = string(p.Status.Phase)
					}
				}
				out = append(out, phase)
			}
			return strings.Join(out, " ")
		}
		<-time.After(5 * time.Minute)
		within(t, 0, "KO10", "Running Pending Pending", phases)
		a.refuse(nil)
		within(t, 40*time.Second, "KO10", "Running Running Pending", phases)
		<-time.After(40 * time.Second) // the classes are read apart from the services
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "kata"}
		if _, err := a.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		within(t, 5*time.Second, "KO11", "Running Running Running", phases)
		if err := a.NodeV1().RuntimeClasses().Delete(t.Context(), "sandboxed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		within(t, 0, "KO11", "Running Running Running", phases)
	})
}
