package cri

import (
	"context"
	"errors"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	_ ResourceUpdater = (*Client)(nil)
	_ StatsReader     = (*Client)(nil)
)

// UpdateContainerResources implements ResourceUpdater.
func (c *Client) UpdateContainerResources(ctx context.Context, containerID string, resources *runtimeapi.ContainerResources) error {
	_, err := call(ctx, c, "UpdateContainerResources", c.options.CallTimeout, c.runtime.UpdateContainerResources,
		&runtimeapi.UpdateContainerResourcesRequest{ContainerId: containerID, Linux: resources.GetLinux(), Windows: resources.GetWindows()})
	return err
}

// UpdatePodSandboxResources implements ResourceUpdater.
func (c *Client) UpdatePodSandboxResources(ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return call(ctx, c, "UpdatePodSandboxResources", c.options.CallTimeout, c.runtime.UpdatePodSandboxResources, request)
}

// ContainerStats implements StatsReader.
func (c *Client) ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error) {
	const op = "ContainerStats"
	response, err := call(ctx, c, op, c.options.CallTimeout, c.runtime.ContainerStats,
		&runtimeapi.ContainerStatsRequest{ContainerId: containerID})
	if err != nil {
		return nil, err
	}
	if response.GetStats() == nil {
		return nil, c.failure(op, errNoStats)
	}
	return response.GetStats(), nil
}

var errNoStats = errors.New("the runtime returned no stats")
