package imagegc_test

import (
	"context"
	"fmt"
	"os"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cleanup/imagegc"
)

// node has three images, and a container that uses one of them.
type node struct{}

func (node) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return []*runtimeapi.Image{
		{Id: "1", RepoTags: []string{"pause:3"}, Pinned: true},
		{Id: "2", RepoTags: []string{"web:1"}},
		{Id: "3", RepoTags: []string{"old:1"}},
	}, nil
}

func (node) RemoveImage(context.Context, *runtimeapi.ImageSpec) error { return nil }

func (node) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return []*runtimeapi.Container{{Id: "1f3a", ImageRef: "2"}}, nil
}

// A plan says why each image goes or stays.
func ExampleCollector_Plan() {
	collector, err := imagegc.New(imagegc.Options{
		Store: node{}, Containers: node{}, Policy: imagegc.Policy{MinAge: -1},
		Disk: func(context.Context) (imagegc.Disk, error) { return imagegc.Disk{Capacity: 100, Available: 5}, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := collector.Plan(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range plan.Choices {
		fmt.Printf("%s remove: %v %s%s\n", c.Image.Names[0], c.Remove, c.Reason, c.Kept)
	}
	// Output:
	// old:1 remove: true unused, and the disk is full
	// pause:3 remove: false ND5: pinned
	// web:1 remove: false ND5: in use: container 1f3a
}

// ImageFsInfo says where the node's images are.
func (node) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: os.TempDir()}},
	}}, nil
}

// Status says of which image the node's sandboxes are made.
func (node) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Info: map[string]string{"config": `{"sandboxImage":"pause:3"}`}}, nil
}

// Without an engine, a collector reads the disk and keeps the image of sandboxes as the engine does.
func ExampleRuntimeDisk() {
	options := imagegc.Options{
		Store: node{}, Containers: node{}, Disk: imagegc.RuntimeDisk(node{}), Keep: imagegc.SandboxImages(node{}, "base:1"),
	}
	disk, err := options.Disk(context.Background())
	fmt.Println("a disk of some size:", disk.Capacity > 0, err)
	kept, err := options.Keep(context.Background())
	fmt.Println("kept:", kept, err)
	// Output:
	// a disk of some size: true <nil>
	// kept: [pause:3 base:1] <nil>
}
