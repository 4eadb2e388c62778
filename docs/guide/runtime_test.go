package guide_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/fake/faketest"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// counted is a runtime that counts the sandboxes it makes, and leaves the work to another.
type counted struct {
	cri.RuntimeService
	sandboxes int
}

func (c *counted) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	id, err := c.RuntimeService.RunPodSandbox(ctx, config, handler)
	if err == nil {
		c.sandboxes++
	}
	return id, err
}

// A runtime may embed another one and override a method.
func Example_ownRuntime() {
	c := &counted{RuntimeService: fake.New(fake.Options{})}
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}}
	_, first := c.RunPodSandbox(context.Background(), config, "")
	_, second := c.RunPodSandbox(context.Background(), config, "")
	fmt.Println(c.sandboxes, first)
	fmt.Println(cri.Class(second))
	// Output:
	// 1 <nil>
	// already exists
}

func TestCounted(t *testing.T) {
	for _, c := range runtimetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // in virtual time; in real time call runtimetest.Run
				c.Run(t, func(*testing.T) runtimetest.Subject {
					f := fake.New(faketest.Options())
					return faketest.Subject(&counted{RuntimeService: f}, f)
				})
			})
		})
	}
}
