package imagegc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// checked is a store that fails, hangs, and checks each removal when it begins.
type checked struct {
	*node
	fails func() bool
	check func(id string)
}

func (c *checked) ListImages(ctx context.Context, f *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	if c.fails() {
		return nil, errors.New("no answer")
	}
	return c.node.ListImages(ctx, f)
}

func (c *checked) RemoveImage(ctx context.Context, i *runtimeapi.ImageSpec) error {
	c.check(i.Image)
	if c.fails() {
		<-time.After(time.Minute)
		return errors.New("stuck")
	}
	return c.node.RemoveImage(ctx, i)
}

// Whatever is pulled, wanted, used and removed meanwhile, and however the runtime fails: no image is removed that
// is pinned, used by a container, wanted by a pod at that moment, or younger than the policy wants; each run removes what
// it has to as far as the runtime lets it (IG3 to IG8, IG11, ND5).
func TestRandomImagesStayAsLongAsTheyHaveTo(t *testing.T) {
	const minAge = 2 * time.Minute
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 13))
			n := newNode()
			seen := map[string]time.Time{} // when a run could see it first
			wanted := func(name string) bool { return slices.Contains(n.wanted(), name) }
			failing := false
			store := &checked{node: n, fails: func() bool { return failing && random.IntN(3) == 0 }}
			store.check = func(id string) {
				name := "reg.io/" + id + ":1"
				i := slices.IndexFunc(n.images, func(l *runtimeapi.Image) bool { return l.Id == id })
				switch {
				case i < 0:
					t.Errorf("seed %d: %s is removed, and is not there", seed, id)
				case slices.ContainsFunc(n.images, func(l *runtimeapi.Image) bool { return l.Id == id && l.Pinned }):
					t.Errorf("seed %d: %s is removed, and is pinned", seed, id)
				case wanted(name):
					t.Errorf("seed %d: %s is removed, and wanted", seed, id)
				case slices.ContainsFunc(n.containers, func(c *runtimeapi.Container) bool { return c.ImageId == id }):
					t.Errorf("seed %d: %s is removed, and used", seed, id)
				case time.Since(seen[id]) < minAge:
					t.Errorf("seed %d: %s is removed %v after it was pulled", seed, id, time.Since(seen[id]))
				}
			}
			c := n.collector(t, Policy{MinAge: minAge, HighPercent: 60, LowPercent: 50})
			c.options.Store = store
			c.options.Disk = func(context.Context) (Disk, error) {
				free := n.capacity
				counted := map[string]bool{}
				for _, l := range n.images {
					if !counted[l.Id] {
						free -= l.Size
					}
					counted[l.Id] = true
				}
				return Disk{Capacity: n.capacity, Available: free}, nil
			}
			for step := range 60 {
				switch random.IntN(7) {
				case 0, 1, 2: // a pull
					id := fmt.Sprint("i", step)
					seen[id] = time.Now()
					for range 1 + random.IntN(2) {
						l := image(id, "reg.io/"+id+":1")
						l.Size, l.Pinned = 5*gib, random.IntN(8) == 0
						n.images = append(n.images, l)
					}
				case 3: // pods come and go
					n.desired = nil
					for _, l := range n.images {
						if random.IntN(4) == 0 {
							n.desired = append(n.desired, l.RepoTags[0])
						}
					}
					n.begun, n.later = time.Now(), append(slices.Clone(n.desired), fmt.Sprintf("reg.io/i%d:1", random.IntN(step+1)))
				case 4:
					n.containers = nil
					for _, l := range n.images {
						if random.IntN(5) == 0 {
							n.containers = append(n.containers, &runtimeapi.Container{Id: "c", ImageId: l.Id})
						}
					}
				case 5:
					failing = random.IntN(2) == 0
				case 6:
					<-time.After(time.Duration(random.IntN(300)) * time.Second)
				}
				if len(n.images) == 0 {
					continue
				}
				pressure := random.IntN(3) == 0
				collect := c.Collect
				if pressure {
					collect = c.Reclaim
				}
				begin, before := time.Now(), maps.Clone(c.images)
				_, err := collect(t.Context())
				disk, _ := c.options.Disk(t.Context())
				full, left := disk.full(60), false
				for _, l := range n.images {
					id := l.Id
					free := !wanted("reg.io/"+id+":1") && !before[id].firstSeen.IsZero() && begin.Sub(before[id].firstSeen) >= minAge &&
						!slices.ContainsFunc(n.images, func(o *runtimeapi.Image) bool { return o.Id == id && o.Pinned }) &&
						!slices.ContainsFunc(n.containers, func(c *runtimeapi.Container) bool { return c.ImageId == id })
					left = left || free && (pressure || full)
				}
				if left && err == nil {
					t.Errorf("seed %d, step %d, pressure %v: images stay that should go, and no error", seed, step, pressure)
				}
			}
		})
	}
}
