package imagegc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// observe lists images and what uses them, and remembers when (IG2). Images that have vanished are
// forgotten. Containers are listed first, so that an image pulled for a container in between counts
// as young rather than unused.
func (c *Collector) observe(ctx context.Context) ([]Image, error) {
	users, err := c.users(ctx)
	if err != nil {
		return nil, err
	}
	listed, err := c.options.Store.ListImages(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	now := c.options.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Image, 0, len(listed))
	images := make(map[string]history, len(listed))
	for _, l := range listed {
		if l.GetId() == "" {
			continue
		}
		i := Image{
			Key: key(l), Names: slices.Concat(l.GetRepoTags(), l.GetRepoDigests()),
			Size: l.GetSize(), Pinned: l.GetPinned(),
		}
		for _, name := range append([]string{l.GetId()}, i.Names...) {
			if i.UsedBy == "" {
				i.UsedBy = users[name]
			}
		}
		m, known := c.images[i.Key]
		if !known {
			m.firstSeen = now
		}
		if i.UsedBy != "" {
			m.lastUsed = now
		}
		images[i.Key] = m
		i.FirstSeen, i.LastUsed = m.firstSeen, m.lastUsed
		out = append(out, i)
	}
	c.images = images
	return out, nil
}

// users returns what uses each image, by every name and ID that the image may have.
func (c *Collector) users(ctx context.Context) (map[string]string, error) {
	users := map[string]string{}
	if c.options.Desired != nil {
		for _, name := range c.options.Desired() {
			users[name] = "a desired pod"
			for _, stored := range storedNames(name) {
				users[stored] = "a desired pod"
			}
		}
	}
	if c.options.Keep != nil {
		names, err := c.options.Keep(ctx)
		if err != nil {
			return nil, fmt.Errorf("find the images that stay in any case: %w", err)
		}
		for _, name := range names {
			users[name] = "the node"
			for _, stored := range storedNames(name) {
				users[stored] = "the node"
			}
		}
	}
	containers, err := c.options.Containers.ListContainers(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, l := range containers {
		for _, name := range []string{l.GetImageRef(), l.GetImageId(), l.GetImage().GetImage()} {
			if name != "" {
				users[name] = "container " + l.GetId()
			}
		}
	}
	return users, nil
}

func key(l *runtimeapi.Image) string {
	if handler := l.GetSpec().GetRuntimeHandler(); handler != "" {
		return l.GetId() + "," + handler
	}
	return l.GetId()
}

// matches reports whether a name from a manifest refers to the image.
func matches(i Image, name string) bool {
	id, _, _ := strings.Cut(i.Key, ",")
	if name == id {
		return true
	}
	for _, stored := range storedNames(name) {
		if slices.Contains(i.Names, stored) {
			return true
		}
	}
	return false
}

// storedNames returns what image stores may call the image that a manifest names: with the tag
// latest if it has neither tag nor digest and, for a short name, with the registry and library it
// stands for. A name too many only keeps an image.
func storedNames(name string) []string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	if !strings.ContainsAny(base, ":@") {
		name += ":latest"
	}
	return []string{name, "docker.io/" + name, "docker.io/library/" + name}
}
