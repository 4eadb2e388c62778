package cri

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
)

// listing remembers which list calls the runtime cannot stream; if an upgrade adds them,
// only a new Client notices. It also keeps the objects of the latest complete lists.
type listing struct {
	sandboxes, containers, images atomic.Bool
	allSandboxes                  *recall[runtimeapi.PodSandbox, *runtimeapi.PodSandbox]
	allContainers                 *recall[runtimeapi.Container, *runtimeapi.Container]
}

func newListing() listing {
	return listing{allSandboxes: newRecall[runtimeapi.PodSandbox](), allContainers: newRecall[runtimeapi.Container]()}
}

// ListPodSandbox implements Reader. With a nil filter, an unchanged sandbox is the same object as in the
// previous list: do not modify it.
func (c *Client) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if filter != nil {
		return c.listSandboxes(ctx, filter)
	}
	return c.lists.allSandboxes.of(func(codec grpc.CallOption) ([]*runtimeapi.PodSandbox, error) { return c.listSandboxes(ctx, nil, codec) })
}

func (c *Client) listSandboxes(ctx context.Context, filter *runtimeapi.PodSandboxFilter, options ...grpc.CallOption) ([]*runtimeapi.PodSandbox, error) {
	request := &runtimeapi.StreamPodSandboxesRequest{Filter: filter}
	items, done, err := streamed(ctx, c, "StreamPodSandboxes", &c.lists.sandboxes,
		c.runtime.StreamPodSandboxes, request, (*runtimeapi.StreamPodSandboxesResponse).GetPodSandboxes, options...)
	if done {
		return items, err
	}
	response, err := call(ctx, c, "ListPodSandbox", c.options.CallTimeout, c.runtime.ListPodSandbox,
		&runtimeapi.ListPodSandboxRequest{Filter: filter}, options...)
	return response.GetItems(), err
}

// ListContainers implements Reader. With a nil filter, an unchanged container is the same object as in the
// previous list: do not modify it.
func (c *Client) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if filter != nil {
		return c.listContainers(ctx, filter)
	}
	return c.lists.allContainers.of(func(codec grpc.CallOption) ([]*runtimeapi.Container, error) { return c.listContainers(ctx, nil, codec) })
}

func (c *Client) listContainers(ctx context.Context, filter *runtimeapi.ContainerFilter, options ...grpc.CallOption) ([]*runtimeapi.Container, error) {
	request := &runtimeapi.StreamContainersRequest{Filter: filter}
	items, done, err := streamed(ctx, c, "StreamContainers", &c.lists.containers,
		c.runtime.StreamContainers, request, (*runtimeapi.StreamContainersResponse).GetContainers, options...)
	if done {
		return items, err
	}
	response, err := call(ctx, c, "ListContainers", c.options.CallTimeout, c.runtime.ListContainers,
		&runtimeapi.ListContainersRequest{Filter: filter}, options...)
	if err != nil && Class(err) == runtime.ErrExhausted && filter.GetPodSandboxId() == "" {
		return c.listBySandbox(ctx, filter)
	}
	return response.GetContainers(), err
}

// listBySandbox lists containers one sandbox at a time, for when they do not all fit into one message: no
// pod would be seen otherwise (spec/runtime.md 2.10). A sandbox that vanishes takes its containers with it.
func (c *Client) listBySandbox(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	sandboxes, err := c.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, err
	}
	var all []*runtimeapi.Container
	for _, s := range sandboxes {
		part := &runtimeapi.ContainerFilter{
			Id: filter.GetId(), State: filter.GetState(), LabelSelector: filter.GetLabelSelector(), PodSandboxId: s.GetId(),
		}
		response, err := call(ctx, c, "ListContainers", c.options.CallTimeout, c.runtime.ListContainers,
			&runtimeapi.ListContainersRequest{Filter: part})
		if err != nil {
			return nil, err
		}
		all = append(all, response.GetContainers()...)
	}
	return all, nil
}

// ListImages implements ImageService. Since containerd does not look at
// the filter, an answer to a filtered list is checked with ImageStatus.
func (c *Client) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	request := &runtimeapi.StreamImagesRequest{Filter: filter}
	all, done, err := streamed(ctx, c, "StreamImages", &c.lists.images,
		c.images.StreamImages, request, (*runtimeapi.StreamImagesResponse).GetImages)
	if !done {
		var response *runtimeapi.ListImagesResponse
		response, err = call(ctx, c, "ListImages", c.options.CallTimeout, c.images.ListImages,
			&runtimeapi.ListImagesRequest{Filter: filter})
		all = response.GetImages()
	}
	if err != nil || len(all) == 0 || filter.GetImage().GetImage() == "" {
		return all, err
	}
	wanted, err := c.ImageStatus(ctx, filter.GetImage(), false)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(i *runtimeapi.Image) bool { return i.GetId() != wanted.GetImage().GetId() }), nil
}

// streamed makes a list call that streams its answer. done is false if the runtime
// does not have the call, so that the caller must make the plain one. A broken
// stream fails the call: a part of a list would look like lost containers
// (spec/pleg.md B8).
func streamed[Req, Message, Item any](
	ctx context.Context, c *Client, op string, missing *atomic.Bool,
	open func(context.Context, *Req, ...grpc.CallOption) (grpc.ServerStreamingClient[Message], error),
	request *Req, items func(*Message) []Item, options ...grpc.CallOption,
) (all []Item, done bool, err error) {
	if c.options.UnaryLists || missing.Load() {
		return nil, false, nil
	}
	ctx, cancel := timing.WithTimeout(ctx, c.options.Clock, c.options.CallTimeout)
	defer cancel()
	end := c.measured.begin(ctx, op)
	stream, err := open(ctx, request, options...)
	for err == nil {
		var m *Message
		if m, err = stream.Recv(); err == nil {
			all = append(all, items(m)...)
		}
	}
	if errors.Is(err, io.EOF) {
		end(nil)
		return all, true, nil
	}
	failure := c.failure(op, err)
	if Class(failure) == runtime.ErrUnimplemented {
		missing.Store(true)
		return nil, false, nil
	}
	end(failure)
	return nil, true, failure
}
