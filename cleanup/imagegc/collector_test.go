package imagegc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is an image store with containers, a disk of 100 GiB and what was reported.
type node struct {
	mu         sync.Mutex // of images
	images     []*runtimeapi.Image
	containers []*runtimeapi.Container
	desired    []string
	begun      time.Time
	later      []string // desired from one second after begun on
	keep       []string
	free       float64 // GiB
	diskErr    error
	capacity   uint64
	listErr    error
	stuck      map[string]bool

	hangs func(id string) bool // removals do not answer

	removed []string
	events  []string
	left    []string
}

func (n *node) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.images), n.listErr
}

func (n *node) RemoveImage(ctx context.Context, i *runtimeapi.ImageSpec) error {
	if n.hangs != nil && n.hangs(i.Image) {
		<-ctx.Done()
		return ctx.Err()
	}
	if n.stuck[i.Image] {
		return errors.New("stuck")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removed = append(n.removed, strings.TrimSuffix(i.Image+","+i.RuntimeHandler, ","))
	n.images = slices.DeleteFunc(n.images, func(l *runtimeapi.Image) bool { return l.Id == i.Image })
	return nil
}

func (n *node) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return n.containers, n.listErr
}

func (n *node) Eventf(_ apiruntime.Object, _, reason, format string, args ...any) {
	n.events = append(n.events, reason+": "+fmt.Sprintf(format, args...))
}

func (n *node) reasons() []string {
	var out []string
	for _, e := range n.events {
		reason, _, _ := strings.Cut(e, ":")
		out = append(out, reason)
	}
	return out
}

// wanted are the images of desired pods now.
func (n *node) wanted() []string {
	if n.later != nil && time.Since(n.begun) >= time.Second {
		return n.later
	}
	return n.desired
}

// image is an image of 1 GiB.
func image(id string, tags ...string) *runtimeapi.Image {
	return &runtimeapi.Image{Id: id, RepoTags: tags, Size: gib}
}

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// digested is an image that was pulled by a digest.
func digested(name string) *runtimeapi.Image {
	return &runtimeapi.Image{Id: "a", RepoDigests: []string{name}, Size: gib}
}

// crowd is n images.
func crowd(n int) []*runtimeapi.Image {
	var out []*runtimeapi.Image
	for i := range n {
		out = append(out, image(fmt.Sprintf("i%04d", i), fmt.Sprintf("registry.example/app:%d", i)))
	}
	return out
}

func newNode(images ...*runtimeapi.Image) *node {
	return &node{images: images, free: 50, capacity: 100 * gib}
}

func (n *node) collector(t *testing.T, policy Policy) *Collector {
	t.Helper()
	c, err := New(Options{
		Store: n, Containers: n, Policy: policy, Recorder: n, NodeName: "n1",
		Desired: func() []string { return n.wanted() },
		Keep:    func(context.Context) ([]string, error) { return n.keep, nil },
		Left:    func(_ context.Context, names []string) { n.left = names },
		Disk: func(context.Context) (Disk, error) {
			return Disk{Capacity: n.capacity, Available: uint64(n.free * gib)}, n.diskErr
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// IG2, IG11, ND5: an image in use stays, by whatever name.
func TestUsers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		image *runtimeapi.Image
		use   func(*node)
		used  bool
	}{
		{"unused", image("a"), func(*node) {}, false},
		{"a container by image ID", image("a"), func(n *node) { n.containers = []*runtimeapi.Container{{Id: "c", ImageId: "a"}} }, true},
		{"edge 28: a dead container by reference", image("a"), func(n *node) {
			n.containers = []*runtimeapi.Container{{Id: "c", ImageRef: "a", State: runtimeapi.ContainerState_CONTAINER_EXITED}}
		}, true},
		{"a container by tag", image("a", "x/y:1"), func(n *node) {
			n.containers = []*runtimeapi.Container{{Id: "c", Image: &runtimeapi.ImageSpec{Image: "x/y:1"}}}
		}, true},
		{"IG11: a desired pod", image("a", "x/y:1"), func(n *node) { n.desired = []string{"x/y:1"} }, true},
		{"IG11: a desired pod without tag", image("a", "x/y:latest"), func(n *node) { n.desired = []string{"x/y"} }, true},
		{"IG11: a desired pod by short name", image("a", "docker.io/library/y:latest"), func(n *node) { n.desired = []string{"y"} }, true},
		{"a desired pod of another tag", image("a", "x/y:2"), func(n *node) { n.desired = []string{"x/y:1"} }, false},
		{"a port is no tag", image("a", "x:5000/y:latest"), func(n *node) { n.desired = []string{"x:5000/y"} }, true},
		{"IG11: a digest beside a tag", digested("docker.io/library/y@" + digest), func(n *node) { n.desired = []string{"y:1@" + digest} }, true},
		{"IG11: a digest beside a tag, at a port", digested("x:5000/a/y@" + digest), func(n *node) { n.desired = []string{"x:5000/a/y:1@" + digest} }, true},
		{"IG11: a digest beside a tag, kept with both", digested("x.io/y:1@" + digest), func(n *node) { n.desired = []string{"x.io/y:1@" + digest} }, true},
		{"IG11: Docker's registry without its library", image("a", "docker.io/library/y:1"), func(n *node) { n.desired = []string{"docker.io/y:1"} }, true},
		{"IG11: Docker's registry by its old name", image("a", "docker.io/library/y:1"), func(n *node) { n.desired = []string{"index.docker.io/library/y:1"} }, true},
		{"IG11: a store with short names", image("a", "y:1"), func(n *node) { n.desired = []string{"docker.io/library/y:1"} }, true},
		{"the tag of another digest", image("a", "docker.io/library/y:1"), func(n *node) { n.desired = []string{"y:1@" + digest} }, false},
		{"the node", image("a", "pause:3"), func(n *node) { n.keep = []string{"pause:3"} }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(tc.image)
				tc.use(n)
				c := n.collector(t, Policy{HighPercent: 85, LowPercent: 84})
				if _, err := c.observe(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Hour)
				n.free = 15
				if _, err := c.Collect(t.Context()); tc.used == (err == nil) {
					t.Errorf("error %v", err) // too little can be freed if the image stays
				}
				if gone := len(n.removed) == 1; gone == tc.used {
					t.Errorf("removed %v", n.removed)
				}
			})
		})
	}
}

// IG2, IG4: an image counts from the last time it was found in use, and one that was
// gone for a while counts as new.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(image("a"), image("b"))
		c := n.collector(t, Policy{MaxAge: time.Hour})
		collect := func() {
			t.Helper()
			if _, err := c.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		n.containers = []*runtimeapi.Container{{Id: "c", ImageId: "b"}}
		collect()
		<-time.After(30 * time.Minute)
		collect()
		n.containers = nil
		<-time.After(31 * time.Minute)
		collect()
		if !slices.Equal(n.removed, []string{"a"}) {
			t.Errorf("removed %v, want a alone", n.removed)
		}
		saved := n.images
		n.images = nil
		collect() // b vanishes
		n.images = saved
		<-time.After(40 * time.Minute)
		collect()
		if len(n.removed) != 1 {
			t.Errorf("removed %v: the image had come back a moment ago", n.removed)
		}
	})
}

// IG5, IG6: if one image cannot be removed, another takes its place.
func TestSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(image("a"), image("b"), image("c"), image("d"))
		n.stuck = map[string]bool{"b": true}
		c := n.collector(t, Policy{MinAge: -1, HighPercent: 85, LowPercent: 83})
		n.free = 15
		r, err := c.Collect(t.Context())
		if err == nil || !slices.Equal(n.removed, []string{"a", "c"}) || r.Freed != 2*gib {
			t.Errorf("removed %v, freed %d, %v", n.removed, r.Freed, err)
		}
		if !slices.Equal(n.left, []string{"b", "d"}) { // IG9
			t.Errorf("left %v", n.left)
		}
		if len(n.events) != 0 { // IG7: it is the first failure, and enough was freed
			t.Errorf("events %v", n.events)
		}
	})
}

// IG5, IG7, edge 26, edge 29: what the operator reads.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pinned := image("a")
		pinned.Pinned = true
		n := newNode(pinned)
		c := n.collector(t, Policy{MinAge: -1})
		n.free = 1
		run := func(want ...string) {
			t.Helper()
			n.events = nil
			_, err := c.Collect(t.Context())
			if (err == nil) != (len(want) == 1 && want[0] == "") {
				t.Errorf("error %v", err)
			}
			if got := strings.Join(n.reasons(), " "); got != strings.Join(want, " ") {
				t.Errorf("events %q, want %q", got, want)
			}
		}
		run("FreeDiskSpaceFailed")
		run("FreeDiskSpaceFailed", "ImageGCFailed")
		n.free = 50
		run("")
		n.diskErr = errors.New("no stats")
		if _, err := c.Collect(t.Context()); err == nil || len(n.removed) != 0 {
			t.Errorf("%v, removed %v", err, n.removed)
		}
		n.diskErr, n.capacity = nil, 0
		run("InvalidDiskCapacity", "ImageGCFailed")
		n.capacity, n.listErr = 100*gib, errors.New("no list")
		run("ImageGCFailed")
		if len(n.removed) != 0 {
			t.Errorf("removed %v", n.removed)
		}
	})
}

// IG8: pressure removes all unused images, at 5 a second (DR6), but never one that a pod has come
// to want meanwhile (DR1).
func TestReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(crowd(12)...)
		c := n.collector(t, Policy{MinAge: -1})
		begin := time.Now()
		n.begun, n.later = begin, []string{"i0011"}
		r, err := c.Reclaim(t.Context())
		if err != nil || len(r.Removed) != 11 {
			t.Errorf("removed %v, %v", r.Removed, err)
		}
		if took := time.Since(begin); took < time.Second || took > 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// IG8: an eviction waits for a run under pressure, so that begins no removal after a minute, says what is
// left, and the next one goes on. That is no failure of the node (IG7).
func TestReclaimEndsAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(crowd(500)...)
		c := n.collector(t, Policy{MinAge: -1})
		begin := time.Now()
		r, err := c.Reclaim(t.Context())
		if took := time.Since(begin); took > time.Minute+time.Second || len(r.Removed) < 300 || err == nil || !strings.Contains(err.Error(), "images were not tried in 1m0s") {
			t.Errorf("removed %d after %v, %v", len(r.Removed), took, err)
		}
		if _, err := c.Reclaim(t.Context()); err != nil || len(n.images) != 0 || len(n.events) != 0 {
			t.Errorf("%d images are left, %v, events %v", len(n.images), err, n.events)
		}
	})
}

// IG6: a runtime whose removals hang holds no run for long; an image that hangs keeps no run from the others.
func TestHungRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(crowd(1000)...)
		n.hangs = func(string) bool { return true }
		c := n.collector(t, Policy{MinAge: -1, MaxAge: time.Minute})
		if _, err := c.Plan(t.Context()); err != nil { // sees the images
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		for run, limit := range map[string]time.Duration{"pressure": time.Minute, "age": 4 * time.Minute} {
			collect := c.Collect
			if run == "pressure" {
				collect = c.Reclaim
			}
			begin := time.Now()
			_, err := collect(t.Context())
			if took := time.Since(begin); took != limit || err == nil || !strings.Contains(err.Error(), "998 images were not tried: 2 removals took too long") {
				t.Errorf("%s: after %v: %v", run, took, err)
			}
		}
		n.hangs = func(id string) bool { return id <= "i0003" }
		for range 5 {
			_, _ = c.Reclaim(t.Context())
		}
		if len(n.images) != 4 {
			t.Errorf("%d images are left, want the 4 that hang", len(n.images))
		}
	})
}

// IG8: a run under pressure waits for no periodic run, which ends without a failure (IG5, IG7).
func TestReclaimEndsAPeriodicRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(crowd(200)...)
		n.free = 1
		c := n.collector(t, Policy{MinAge: -1, LowPercent: 1})
		ended := make(chan error)
		go func() {
			_, err := c.Collect(t.Context())
			ended <- err
		}()
		<-time.After(2 * time.Second)
		begin := time.Now()
		go func() {
			_, err := c.Reclaim(t.Context())
			ended <- err
		}()
		if err := <-ended; !errors.Is(err, errGivesWay) || time.Since(begin) > time.Second {
			t.Errorf("the periodic run: after %v: %v", time.Since(begin), err)
		}
		if err := <-ended; err != nil || len(n.images) != 0 || len(n.events) != 0 {
			t.Errorf("%d images are left, %v, events %v", len(n.images), err, n.events)
		}
	})
}

// IG7: an event names a few failures, however many there are.
func TestEventOfManyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(crowd(100)...)
		n.stuck = map[string]bool{}
		for _, i := range n.images {
			n.stuck[i.Id] = true
		}
		c := n.collector(t, Policy{MinAge: -1})
		for range 2 {
			_, _ = c.Reclaim(t.Context())
		}
		if len(n.events) != 1 || len(n.events[0]) > 500 || !strings.HasSuffix(n.events[0], "and 95 more") {
			t.Errorf("events %.2000q", n.events)
		}
	})
}

// IG2: a collector that removes nothing by itself still records when it first saw an image, and Reclaim removes it.
func TestReclaimWithoutPeriodicRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(image("early"))
		c := n.collector(t, Policy{HighPercent: 100, MinAge: 10 * time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = c.Run(ctx) }()
		<-time.After(time.Minute)
		n.mu.Lock()
		n.images = append(n.images, image("late"))
		n.mu.Unlock()
		<-time.After(20 * time.Minute)
		_, err := c.Reclaim(t.Context())
		if err != nil || !slices.Equal(n.removed, []string{"early", "late"}) {
			t.Errorf("removed %v, %v", n.removed, err)
		}
		cancel()
		<-ended
	})
}

// IG2: images kept per runtime handler are different ones.
func TestHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := image("a")
		i.Spec = &runtimeapi.ImageSpec{RuntimeHandler: "vm"}
		n := newNode(i)
		c := n.collector(t, Policy{MinAge: -1})
		if _, err := c.Reclaim(t.Context()); err != nil || !slices.Equal(n.removed, []string{"a,vm"}) {
			t.Errorf("removed %v, %v", n.removed, err)
		}
	})
}

// Run learns ages from the start, and collects every 5 min.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(image("a"))
		n.free = 15
		c := n.collector(t, Policy{HighPercent: 85, LowPercent: 84, MinAge: 4 * time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
		defer cancel()
		if err := c.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if len(n.removed) != 1 {
			t.Errorf("removed %v", n.removed)
		}
		often, err := New(Options{
			Store: n, Containers: n, Period: 10 * time.Second, Policy: Policy{MinAge: -1},
			Disk: func(context.Context) (Disk, error) {
				return Disk{Capacity: n.capacity, Available: uint64(n.free * gib)}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.images = []*runtimeapi.Image{image("b")}
		ctx, cancel = context.WithTimeout(t.Context(), 11*time.Second)
		defer cancel()
		if _ = often.Run(ctx); len(n.removed) != 2 {
			t.Errorf("with a period of 10 s, removed %v", n.removed)
		}
		off := n.collector(t, Policy{HighPercent: 100})
		n.images, n.listErr = []*runtimeapi.Image{image("c")}, errors.New("no list")
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_ = off.Run(ctx)
		if len(n.events) != 0 || len(n.removed) != 2 {
			t.Errorf("events %v, removed %v of a collector that is off", n.events, n.removed)
		}
	})
}

// A dry run and the run that follows agree (DR2), and it removes nothing.
func TestPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(image("a"), image("b"))
		n.free = 10
		c := n.collector(t, Policy{MinAge: -1})
		plan, err := c.Plan(t.Context())
		if err != nil || choices(plan) != "-a -b" || len(n.removed) != 0 {
			t.Errorf("%s, %v, removed %v", choices(plan), err, n.removed)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []Options{{}, {Store: newNode(), Containers: newNode(), Policy: Policy{HighPercent: 200}}, {Store: newNode(), Containers: newNode(), Period: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// IG2: an image that the store lists twice is one image: no name of it makes it unused, and it is removed and
// counted once.
func TestImageListedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pinned := image("p")
		pinned.Pinned = true
		n := newNode(image("a", "x/y:1"), image("a", "x/z:1"), image("p"), pinned, image("b"), image("b", "x/b:1"), image("c"))
		n.desired = []string{"x/y:1"}
		c := n.collector(t, Policy{MinAge: -1, LowPercent: 84})
		n.free = 14.5
		r, err := c.Collect(t.Context())
		if err != nil || !slices.Equal(n.removed, []string{"b", "c"}) || r.Freed != 2*gib {
			t.Errorf("removed %v, freed %d, %v", n.removed, r.Freed, err)
		}
	})
}

// DR1: an image that a pod comes to want while the run waits for its turn to remove it stays.
func TestImageWantedDuringThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(crowd(7)...)
		c := n.collector(t, Policy{MinAge: -1})
		n.begun, n.later = time.Now().Add(-900*time.Millisecond), []string{"i0005"} // wanted in 100 ms
		if _, err := c.Reclaim(t.Context()); err != nil || slices.Contains(n.removed, "i0005") || len(n.removed) != 6 {
			t.Errorf("removed %v, %v", n.removed, err)
		}
	})
}

// IG5: a file system that never answers, such as one whose server is gone, holds up neither the removal by age nor a run
// under pressure. It is not asked again before it has answered.
func TestDiskThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(crowd(3)...)
		c := n.collector(t, Policy{MinAge: -1, MaxAge: time.Minute})
		answer, disk := make(chan struct{}), c.options.Disk
		var asked atomic.Int32
		c.options.Disk = func(ctx context.Context) (Disk, error) {
			asked.Add(1)
			<-answer
			return disk(ctx)
		}
		c.look(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := c.Collect(ctx); err == nil || time.Since(begin) != time.Second {
			t.Errorf("cancelled after %v: %v", time.Since(begin), err)
		}
		<-time.After(time.Hour)
		begin = time.Now()
		if _, err := c.Collect(t.Context()); err == nil || len(n.removed) != 3 || time.Since(begin) > 10*time.Second {
			t.Errorf("by age: removed %v after %v, %v", n.removed, time.Since(begin), err)
		}
		n.images = crowd(3)
		begin = time.Now()
		if _, err := c.Reclaim(t.Context()); err == nil || len(n.images) != 0 || time.Since(begin) > 10*time.Second {
			t.Errorf("under pressure: %d images are left after %v, %v", len(n.images), time.Since(begin), err)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		close(answer)
		synctest.Wait()
		if _, err := c.Collect(t.Context()); err != nil {
			t.Errorf("once it answers: %v", err)
		}
	})
}

// IG5, DR1: a dry run while a run reads the usage of a slow disk, and a run while a dry run does, know the usage.
func TestPlanBesideARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(crowd(3)...)
		n.free = 10
		c := n.collector(t, Policy{MinAge: -1})
		disk := c.options.Disk
		c.options.Disk = func(ctx context.Context) (Disk, error) {
			<-time.After(time.Second)
			return disk(ctx)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Plan(t.Context()); err != nil {
				t.Errorf("dry run: %v", err)
			}
		})
		wg.Go(func() {
			<-time.After(time.Second / 2)
			if _, err := c.Plan(t.Context()); err != nil {
				t.Errorf("another dry run: %v", err)
			}
		})
		<-time.After(time.Second / 2)
		if r, err := c.Reclaim(t.Context()); err != nil || len(r.Removed) != 3 {
			t.Errorf("run: removed %v, %v", r.Removed, err)
		}
		wg.Wait()
		n.free = 50
		for range 3 { // a dry run now and then makes no run fail
			wg.Go(func() { _, _ = c.Plan(t.Context()) })
			<-time.After(time.Second / 2)
			if _, err := c.Collect(t.Context()); err != nil {
				t.Errorf("run: %v", err)
			}
			wg.Wait()
		}
		if len(n.events) > 0 {
			t.Errorf("events %v", n.events)
		}
	})
}

// deafStore is a store that does not hear the end of a context.
type deafStore struct {
	*node
	answer chan struct{}
}

func (s deafStore) RemoveImage(_ context.Context, i *runtimeapi.ImageSpec) error {
	<-s.answer
	return s.node.RemoveImage(context.Background(), i)
}

// IG8: a run under pressure whose manager has ended without it removes no further image once the runtime answers:
// another agent may need them by then.
func TestReclaimThatIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(crowd(20)...)
		c := n.collector(t, Policy{MinAge: -1})
		answer := make(chan struct{})
		c.options.Store = deafStore{n, answer}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = c.Reclaim(ctx) }()
		synctest.Wait()
		cancel()
		close(answer)
		synctest.Wait()
		if len(n.removed) != 1 {
			t.Errorf("removed %v", n.removed)
		}
		if _, err := c.Reclaim(ctx); err == nil || len(n.removed) != 1 {
			t.Errorf("%v, removed %v", err, n.removed)
		}
	})
}
