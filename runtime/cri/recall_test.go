package cri_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime/cri"
)

// node is a server whose lists show what the maps hold, in random order.
type node struct {
	sandboxes  map[string]*runtimeapi.PodSandbox
	containers map[string]*runtimeapi.Container
	broken     error
}

func shuffled[T any](of map[string]T) []T {
	var all []T
	for _, item := range of {
		all = append(all, item)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (n *node) server(streams bool) *server {
	s := &server{unary: func(_ context.Context, method string, _ any) (any, error) {
		if method == "ListPodSandbox" {
			return &runtimeapi.ListPodSandboxResponse{Items: shuffled(n.sandboxes)}, n.broken
		}
		return &runtimeapi.ListContainersResponse{Containers: shuffled(n.containers)}, n.broken
	}}
	if streams {
		s.streamContainers = func(stream containerStream) error {
			for _, c := range shuffled(n.containers) {
				if err := stream.Send(&runtimeapi.StreamContainersResponse{Containers: []*runtimeapi.Container{c}}); err != nil {
					return err
				}
			}
			return n.broken
		}
	}
	return s
}

// TestUnchangedObjectsAreNotDecodedAgain is B6: whatever appears, disappears and changes, lists show what the
// runtime has; an unchanged object is the one of the previous list, and what is gone is forgotten.
func TestUnchangedObjectsAreNotDecodedAgain(t *testing.T) {
	for _, streams := range []bool{false, true} {
		t.Run(fmt.Sprintf("streams=%v", streams), func(t *testing.T) {
			n := &node{sandboxes: map[string]*runtimeapi.PodSandbox{}, containers: map[string]*runtimeapi.Container{}}
			c := connect(t, n.server(streams), cri.Options{})
			sandboxes, containers := map[string]*runtimeapi.PodSandbox{}, map[string]*runtimeapi.Container{}
			rapid.Check(t, func(t *rapid.T) {
				changed := map[string]bool{}
				for range rapid.IntRange(0, 3).Draw(t, "changes") {
					id := rapid.StringMatching(`[a-f]`).Draw(t, "id")
					changed[id] = true
					if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
						delete(n.sandboxes, id)
						delete(n.containers, id)
						continue
					}
					words := rapid.MapOfN(rapid.String(), rapid.String(), 0, 4)
					n.sandboxes[id] = &runtimeapi.PodSandbox{
						Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: id, Attempt: rapid.Uint32().Draw(t, "attempt")},
						State: runtimeapi.PodSandboxState(rapid.Int32Range(0, 3).Draw(t, "state")), Labels: words.Draw(t, "labels"),
						Annotations: words.Draw(t, "annotations"), CreatedAt: rapid.Int64().Draw(t, "created"),
					}
					n.containers[id] = &runtimeapi.Container{
						Id: id, PodSandboxId: id, Image: &runtimeapi.ImageSpec{Image: id, Annotations: words.Draw(t, "image")},
						State: runtimeapi.ContainerState(rapid.Int32Range(0, 4).Draw(t, "state")), Labels: words.Draw(t, "labels"),
					}
				}
				gotSandboxes, err := c.ListPodSandbox(context.Background(), nil)
				if err != nil {
					t.Fatal(err)
				}
				same(t, gotSandboxes, n.sandboxes, sandboxes, changed)
				gotContainers, err := c.ListContainers(context.Background(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for id, was := range containers { // an image's annotations are a map in a message: their order may differ
					changed[id] = changed[id] || len(was.GetImage().GetAnnotations()) > 1
				}
				same(t, gotContainers, n.containers, containers, changed)
				if s, c := c.Recalled(); s != len(n.sandboxes) || c != len(n.containers) {
					t.Fatalf("%d sandboxes and %d containers are known, want %d and %d", s, c, len(n.sandboxes), len(n.containers))
				}
			})
		})
	}
}

// same compares a list with what the runtime has, and with the previous list, which it then replaces.
func same[T interface {
	proto.Message
	GetId() string
	comparable
}](t *rapid.T, got []T, want, before map[string]T, changed map[string]bool) {
	if len(got) != len(want) {
		t.Fatalf("%d objects, want %d", len(got), len(want))
	}
	listed := map[string]T{}
	for _, item := range got {
		id := item.GetId()
		if !proto.Equal(item, want[id]) {
			t.Fatalf("%s is %v, want %v", id, item, want[id])
		}
		if was, known := before[id]; known && !changed[id] && was != item {
			t.Fatalf("%s has not changed, and was decoded again", id)
		}
		listed[id] = item
	}
	clear(before)
	for id, item := range listed {
		before[id] = item
	}
}

// A failed list says nothing about what it lacks (B8), and a filtered list is not a complete one.
func TestOnlyWholeListsForget(t *testing.T) {
	n := &node{containers: map[string]*runtimeapi.Container{"a": {Id: "a"}, "b": {Id: "b"}}}
	c := connect(t, n.server(false), cri.Options{})
	known := func() (n int) { _, n = c.Recalled(); return n }
	if _, err := c.ListContainers(t.Context(), nil); err != nil || known() != 2 {
		t.Fatalf("%d known, %v", known(), err)
	}
	delete(n.containers, "a")
	if got, err := c.ListContainers(t.Context(), &runtimeapi.ContainerFilter{Id: "b"}); err != nil || len(got) != 1 || known() != 2 {
		t.Errorf("a filtered list: got %d, %v; %d known", len(got), err, known())
	}
	n.broken = context.DeadlineExceeded
	if _, err := c.ListContainers(t.Context(), nil); err == nil || known() != 2 {
		t.Errorf("a list that fails: %v; %d known", err, known())
	}
	n.broken = nil
	if got, err := c.ListContainers(t.Context(), nil); err != nil || len(got) != 1 || known() != 1 {
		t.Errorf("a list of all: got %d, %v; %d known", len(got), err, known())
	}
}

// encodedList is an answer with n containers as the engine makes them, followed by more.
func encodedList(t testing.TB, n int, more ...byte) []byte {
	t.Helper()
	all := make([]*runtimeapi.Container, n)
	for i := range all {
		all[i] = &runtimeapi.Container{
			Id: fmt.Sprintf("%064d", i), PodSandboxId: fmt.Sprintf("%064d", i), Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image: &runtimeapi.ImageSpec{Image: "registry.example/app:1"}, State: runtimeapi.ContainerState_CONTAINER_RUNNING, CreatedAt: 1,
			Labels: map[string]string{
				"io.kubernetes.container.name": "main", "io.kubernetes.pod.name": fmt.Sprint("pod-", i),
				"io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": fmt.Sprintf("%032d", i),
			},
			Annotations: map[string]string{
				"io.kubernetes.container.hash": "1", "io.kubernetes.container.restartCount": "0",
				"io.kubernetes.container.terminationMessagePath": "/dev/termination-log", "io.kubernetes.pod.terminationGracePeriod": "30",
			},
		}
	}
	encoded, err := proto.Marshal(&runtimeapi.ListContainersResponse{Containers: all})
	if err != nil {
		t.Fatal(err)
	}
	return append(encoded, more...)
}

// B6: objects that have not changed cost no allocation; the list itself grows a few times.
func TestUnchangedListAllocatesNothingPerObject(t *testing.T) {
	c, encoded := connect(t, &server{}, cri.Options{}), encodedList(t, 1000)
	allocations := testing.AllocsPerRun(10, func() {
		if got, err := c.DecodeContainers(encoded); err != nil || len(got) != 1000 {
			t.Fatal(len(got), err)
		}
	})
	if allocations > 30 {
		t.Errorf("%v allocations for 1,000 containers", allocations)
	}
}

// An answer that is cut off, lies about a size or is not a message is an error, and one of a later version that
// says more than the list is read like any other.
func TestListsThatCannotBeRead(t *testing.T) {
	c := connect(t, &server{}, cri.Options{})
	for name, tc := range map[string]struct {
		encoded []byte
		want    int // -1: an error
	}{
		"empty":            {nil, 0},
		"whole":            {encodedList(t, 2), 2},
		"says more":        {encodedList(t, 2, 2<<3|2, 3, 'a', 'b', 'c'), 2},
		"says a number":    {encodedList(t, 2, 3<<3, 7), 2},
		"cut off":          {encodedList(t, 2)[:100], -1},
		"no size":          {encodedList(t, 2, 1<<3|2), -1},
		"huge size":        {encodedList(t, 2, 1<<3|2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), -1},
		"no object":        {encodedList(t, 2, 1<<3|2, 1, 0xff), -1},
		"no UTF-8":         {encodedList(t, 2, 1<<3|2, 3, 1<<3|2, 1, 0xff), -1},
		"no tag":           {encodedList(t, 2, 0xff), -1},
		"end of no group":  {encodedList(t, 2, 5<<3|4), -1},
		"whole, once more": {encodedList(t, 3), 3},
	} {
		got, err := c.DecodeContainers(tc.encoded)
		if (err != nil) != (tc.want < 0) || err == nil && len(got) != tc.want {
			t.Errorf("%s: %d containers, %v", name, len(got), err)
		}
	}
}

// BenchmarkDecodeList is what a relist decodes: on an idle node, and without memory of earlier lists.
func BenchmarkDecodeList(b *testing.B) {
	encoded := encodedList(b, 100)
	b.Run("unchanged", func(b *testing.B) {
		c := connect(b, &server{}, cri.Options{})
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.DecodeContainers(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal(encoded, &runtimeapi.ListContainersResponse{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
