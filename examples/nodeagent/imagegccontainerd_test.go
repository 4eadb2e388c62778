//go:build containerd

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/cri"
)

// imageStore is what a runtime has of images, as another client of it sees them.
type imageStore struct {
	t      *testing.T
	client *cri.Client
}

// sizes are the sizes of all images by name.
func (s imageStore) sizes() map[string]uint64 {
	s.t.Helper()
	list, err := s.client.ListImages(s.t.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, image := range list {
		for _, tag := range image.GetRepoTags() {
			out[tag] = image.GetSize()
		}
	}
	return out
}

// disk is the file system that the runtime says its images are on.
func (s imageStore) disk() (capacity, used int64) {
	s.t.Helper()
	response, err := s.client.ImageFsInfo(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(response.GetImageFilesystems()[0].GetFsId().GetMountpoint(), &stat); err != nil {
		s.t.Fatal(err)
	}
	return int64(stat.Blocks) * stat.Bsize, int64(stat.Blocks-stat.Bavail) * stat.Bsize
}

// imagePlan is what "nodeagent cleanup --plan" says of images: by name the rule that
// keeps one, or "" if it goes.
func imagePlan(t *testing.T, a *testAgent) map[string]string {
	t.Helper()
	code, out, problems := ask(t, "--plan", "-o", "json", "--listen", a.listen)
	var plan struct {
		Actions []struct{ Step, Object, Reason, Forbidden string }
	}
	if err := json.Unmarshal([]byte(out), &plan); code != 0 || err != nil || problems != "" {
		t.Fatalf("exit code %d, %v, %s", code, err, problems)
	}
	rules := map[string]string{}
	for _, action := range plan.Actions {
		if action.Step == "remove image" {
			rules[action.Object] = action.Forbidden
		}
	}
	return rules
}

// awaitRules waits until the plan keeps images for these rules.
func awaitRules(t *testing.T, a *testAgent, what string, want map[string]string) {
	t.Helper()
	await(t, what, func() error {
		rules := imagePlan(t, a)
		for image, rule := range want {
			if got, planned := rules[image]; !planned || !strings.HasPrefix(got, rule) {
				return fmt.Errorf("%s: %q, want %q, in %q", image, got, rule, rules)
			}
		}
		return nil
	})
}

// runningContainers are the containers of all running pods, with how often each was
// started again.
func runningContainers(agents ...*testAgent) map[string]int32 {
	out := map[string]int32{}
	for _, a := range agents {
		for _, p := range a.pods() {
			for _, c := range p.Status.ContainerStatuses {
				if c.State.Running != nil {
					out[p.Name+" "+c.ContainerID] = c.RestartCount
				}
			}
		}
	}
	return out
}

// TestContainerdImageGC: cleanup.md IG1, IG3, IG5, IG6, IG10, IG11, ND5, edge cases 26
// and 28: on a runtime with a small disk of its own, unused images go when
// the disk is full, the longest unused first and no more than needed. Those that a
// container has, also a dead one or one of another agent, that a pod waits for or that
// sandboxes are made of stay, whatever happens; the plan says why, events say that it
// was not enough, and no pod notices.
func TestContainerdImageGC(t *testing.T) {
	beside(t)
	const mib = 1 << 20
	runtime, manifests, args := onContainerd(t)
	runtime.NeedPrivate(t, "fills the disk of the runtime")
	image := func(name string) string { return "localhost/" + name + ":1" }
	for _, name := range []string{"never", "first", "second", "third", "used", "later", "foreign"} {
		runtime.AddImage(image(name), mib)
	}
	runtime.Shrink(128 * mib)
	client, err := cri.Dial(t.Context(), runtime.Endpoint, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store := imageStore{t, client}

	otherManifests := t.TempDir()
	writeManifest(t, otherManifests, "foreign.yaml", pod("foreign", image("foreign"), "sleep 1000"))
	other := startAgent(t, "--manifests", otherManifests, "--root", t.TempDir(), "--runtime", runtime.Endpoint, "--node-name", "n2")
	a := startAgent(t, append(args, "--image-gc-high", "80", "--image-gc-low", "78", "--image-gc-min-age", "0", "--image-gc-period", "500ms")...)
	unused := []string{"first", "second", "third"}
	for _, name := range append(unused, "used") {
		writeManifest(t, manifests, name+".yaml", pod(name, image(name), "exec sleep 1000", "  terminationGracePeriodSeconds: 1"))
	}
	writeManifest(t, manifests, "ended.yaml", pod("ended", runtime.Image, "exit 0", "  restartPolicy: Never"))
	writeManifest(t, manifests, "later.yaml", pod("later", image("later"), "exit 0", // waits for a folder
		"    volumeMounts: [{name: v, mountPath: /v}]", "  volumes: [{name: v, hostPath: {path: "+filepath.Join(manifests, "none")+", type: Directory}}]"))
	for _, name := range append(unused, "used") {
		a.awaitPhase(name, v1.PodRunning)
	}
	a.awaitPhase("ended", v1.PodSucceeded)
	a.awaitPod("later", "waiting", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodPending })
	await(t, "the foreign pod to run", func() error {
		if p := other.pods()["foreign"]; p == nil || p.Status.Phase != v1.PodRunning {
			return errors.New("not yet")
		}
		return nil
	})
	// They come out of use one after the other.
	for _, name := range unused {
		awaitRules(t, a, "the image to be in use", map[string]string{image(name): "ND5: in use: container"})
		remove(t, filepath.Join(manifests, name+".yaml"))
		awaitRules(t, a, "the image to be unused", map[string]string{image(name): "IG5: unused; the disk is not full"})
	}
	kept := map[string]string{
		image("used"): "ND5: in use: container", runtime.Image: "ND5: in use: container", image("foreign"): "ND5: in use: container",
		image("later"): "ND5: in use: a desired pod", "localhost/pause:test": "ND5: ",
	}
	awaitRules(t, a, "the plan to say why the others stay", kept)
	before := runningContainers(a, other)
	if len(before) != 2 {
		t.Fatalf("%v run, want the pods used and foreign", before)
	}

	sizes := store.sizes()
	size := int64(sizes[image("never")])
	for _, name := range append(unused, "never") {
		if s := int64(sizes[image(name)]); s < mib || s-size > size/10 || size-s > size/10 {
			t.Fatalf("image %s has %d bytes, never has %d", name, s, size)
		}
	}
	// So much more is used than the low mark that two images have to go, not one and not
	// three; that is above the high mark.
	capacity, used := store.disk()
	goal := capacity*78/100 + size*3/2
	if goal < capacity*80/100 || used > capacity*75/100 {
		t.Fatalf("images of %d bytes on a disk of %d, of which %d are used: this test cannot work", size, capacity, used)
	}
	ballast := filepath.Join(runtime.Root, "ballast")
	fillTo(t, ballast, goal-used)
	all := slices.Sorted(maps.Keys(sizes))
	awaitImages(t, store, "the two that are unused longest to go", without(all, image("never"), image("first")))
	awaitRules(t, a, "the disk to be empty enough", map[string]string{
		image("second"): "IG5: unused; the disk is not full", image("third"): "IG5: unused; the disk is not full",
	})
	awaitImages(t, store, "no other to have gone", without(all, image("never"), image("first")))
	text := a.log()
	said := func(name string) int {
		return strings.Index(text, `msg="Removing image" logger=images image=`+image(name))
	}
	if never, first := said("never"), said("first"); never < 0 || first < never {
		t.Error("the log does not say that the one that was never used went first")
	}
	if strings.Contains(text, "FreeDiskSpaceFailed") || strings.Contains(text, "ImageGCFailed") {
		t.Error("an event tells of a failure that was none")
	}

	// More than all the unused ones together.
	capacity, used = store.disk()
	fillTo(t, ballast+"2", capacity*97/100-used)
	awaitImages(t, store, "everything unused to go", without(all, image("never"), image("first"), image("second"), image("third")))
	await(t, "the events", func() error {
		for _, reason := range []string{"FreeDiskSpaceFailed", "ImageGCFailed"} {
			if !strings.Contains(a.log(), reason) {
				return errors.New("no " + reason)
			}
		}
		return nil
	})
	rules := imagePlan(t, a)
	for image, rule := range kept {
		if !strings.HasPrefix(rules[image], rule) {
			t.Errorf("on a full disk the plan says of %s: %q, want %q", image, rules[image], rule)
		}
	}
	if _, metrics := a.get("/metrics"); !strings.Contains(metrics, `kubelet_image_garbage_collected_total{reason="space"} 4`) {
		t.Error("the metric of removed images does not say 4 for space")
	}
	if after := runningContainers(a, other); !reflect.DeepEqual(after, before) {
		t.Errorf("containers %v, before %v", after, before)
	}
	for _, path := range []string{ballast, ballast + "2"} {
		remove(t, path)
	}
	a.awaitPhase("used", v1.PodRunning)
}

// fillTo takes so many bytes of a disk at once.
func fillTo(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, size), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// without returns names less some of them.
func without(names []string, gone ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(gone, n) })
}

// awaitImages waits until exactly these images are there.
func awaitImages(t *testing.T, s imageStore, what string, want []string) {
	t.Helper()
	await(t, what, func() error {
		if got := slices.Sorted(maps.Keys(s.sizes())); !slices.Equal(got, want) {
			return fmt.Errorf("images %q, want %q", got, want)
		}
		return nil
	})
}
