package imagegc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/registrykey"
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
	out := imagesOf(listed)
	images := make(map[string]history, len(out))
	for n := range out {
		i := &out[n]
		for _, name := range i.known() {
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
	}
	c.images = images
	return out, nil
}

// imagesOf returns the images of a list. One that is listed several times, such as once for each of its names, is
// one image: its removal removes it under all names.
func imagesOf(listed []*runtimeapi.Image) []Image {
	out := make([]Image, 0, len(listed))
	index := make(map[string]int, len(listed))
	for _, l := range listed {
		if l.GetId() == "" {
			continue
		}
		n, known := index[key(l)]
		if !known {
			n = len(out)
			index[key(l)], out = n, append(out, Image{Key: key(l)})
		}
		i := &out[n]
		for _, name := range slices.Concat(l.GetRepoTags(), l.GetRepoDigests()) {
			if !slices.Contains(i.Names, name) {
				i.Names = append(i.Names, name)
			}
		}
		i.Size, i.Pinned = max(i.Size, l.GetSize()), i.Pinned || l.GetPinned()
	}
	return out
}

// usedByPod is what uses an image that Options.Desired names.
const usedByPod = "a desired pod, or one that runs or stops"

// users returns what uses each image, by every name and ID that the image may have.
func (c *Collector) users(ctx context.Context) (map[string]string, error) {
	users := map[string]string{}
	if c.options.Desired != nil {
		for _, name := range c.options.Desired() {
			users[name], users[fullName(name)] = usedByPod, usedByPod
		}
	}
	if c.options.Keep != nil {
		names, err := c.options.Keep(ctx)
		if err != nil {
			return nil, fmt.Errorf("find the images that stay in any case: %w", err)
		}
		for _, name := range names {
			users[name], users[fullName(name)] = "the node", "the node"
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

// known returns everything that may stand for the image: its ID, its names as the store has them, and
// the same names in full.
func (i Image) known() []string {
	id, _, _ := strings.Cut(i.Key, ",")
	out := append([]string{id}, i.Names...)
	for _, name := range i.Names {
		out = append(out, fullName(name))
	}
	return out
}

// matches reports whether a name from a manifest refers to the image.
func matches(i Image, name string) bool {
	known := i.known()
	return slices.Contains(known, name) || slices.Contains(known, fullName(name))
}

// fullName returns a name with its registry and repository in full, and one of digest and tag: the digest
// counts if there are both, and without any the tag is latest. Runtimes name what they pull like that.
func fullName(name string) string {
	repository := registrykey.Repository(name)
	name, digest, ok := strings.Cut(name, "@")
	if ok {
		return repository + "@" + digest
	}
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return repository + name[i:]
	}
	return repository + ":latest"
}
