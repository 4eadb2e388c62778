package enginetest_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// rewrites is the number of manifests that TestRewrites changes at random; make rewrites sets
// PODWRIGHT_REWRITES=10000.
const rewrites = 200

// perNode is the number of manifests that share an engine.
const perNode = 100

// TestRewrites: edge cases 9 and 10, SI2, SI10. Manifests are written, half-written, renamed,
// deleted and restored at random while their pods terminate. In the end, each last manifest runs,
// and two generations of one pod have never run at once.
func TestRewrites(t *testing.T) {
	t.Parallel()
	total := rewrites
	if raceDetector {
		total = perNode
	}
	if s := os.Getenv("PODWRIGHT_REWRITES"); s != "" {
		var err error
		if total, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	first := rand.Uint64N(1 << 32)
	if s := os.Getenv("PODWRIGHT_REWRITES_FROM"); s != "" {
		var err error
		if first, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	for begin := first; begin < first+uint64(total); begin += perNode {
		if !t.Run(fmt.Sprintf("from %d", begin), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rewrite(t, begin) })
		}) {
			t.Logf("again with PODWRIGHT_REWRITES=%d PODWRIGHT_REWRITES_FROM=%d", perNode, begin)
			return
		}
	}
}

// generation is the last state of a manifest: its image, empty if there is no manifest.
type generation struct {
	name, image string
}

// edit is one change of a manifest.
type edit struct {
	at time.Duration
	do func() error
}

// rewrite takes the perNode manifests from the number begin through their changes on one node.
func rewrite(t *testing.T, begin uint64) {
	folder := t.TempDir()
	rt := fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
		r := rand.New(rand.NewPCG(begin, uint64(l.PodName[len(l.PodName)-4])+uint64(l.Number)))
		return fake.Script{IgnoreTERM: r.IntN(4) == 0, OnTERM: fake.Exit{After: time.Duration(r.IntN(3000)) * time.Millisecond}}
	}})
	watch := &singles{RuntimeService: rt, images: map[string]string{}}
	manifests, err := source.NewFile(folder, "n1", source.FileOptions{Period: time.Second, PollOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
		c.Runtime, c.Sources = watch, []syncloop.Source{manifests}
	}).start()

	var edits []edit
	last := make([]generation, perNode)
	for i := range last {
		m := &manifest{folder: folder, name: fmt.Sprintf("m%d-%03d", begin, i), random: rand.New(rand.NewPCG(begin, uint64(i)))}
		edits = append(edits, m.plan()...)
		last[i] = generation{m.name + "-n1", m.content}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	start := time.Now()
	for _, e := range edits {
		<-time.After(e.at - time.Since(start))
		if err := e.do(); err != nil {
			t.Fatal(err)
		}
	}
	var problem error
	for range 40 {
		<-time.After(10 * time.Second)
		synctest.Wait()
		if problem = watch.compare(last); problem == nil {
			break
		}
	}
	if problem != nil {
		t.Error(problem)
	}
	watch.report(t)
	r.stop()
}

// manifest is one file that changes.
type manifest struct {
	folder, name string
	random       *rand.Rand
	at           time.Duration
	content      string // the image in the file, "" if there is no file
	path         string
	made         int
}

// plan returns the changes of the manifest: the last one settles its content.
func (m *manifest) plan() []edit {
	var edits []edit
	do := func(f func() error) { edits = append(edits, edit{m.at, f}) }
	m.path = filepath.Join(m.folder, m.name+".yaml")
	previous := ""
	for range 3 + m.random.IntN(8) {
		path, image := m.path, fmt.Sprintf("app:%d", m.made)
		switch m.random.IntN(6) {
		case 0: // another file name, in one step
			if m.content != "" {
				m.made++
				to := filepath.Join(m.folder, fmt.Sprintf("%s-%d.yaml", m.name, m.made))
				do(func() error { return os.Rename(path, to) })
				m.path = to
			}
		case 1: // deleted
			if m.content != "" {
				do(func() error { return os.Remove(path) })
				previous, m.content = m.content, ""
			}
		case 2: // restored as it was
			if m.content == "" && previous != "" {
				back := previous
				do(func() error { return os.WriteFile(path, m.text(back), 0o600) })
				m.content = back
			}
		case 3: // half of it first
			text := m.text(image)
			do(func() error { return os.WriteFile(path, text[:len(text)/2], 0o600) })
			m.at += time.Duration(m.random.IntN(1500)) * time.Millisecond
			do(func() error { return os.WriteFile(path, text, 0o600) })
			m.content, m.made = image, m.made+1
		case 4: // as editors do
			hidden := filepath.Join(m.folder, "."+m.name)
			do(func() error {
				if err := os.WriteFile(hidden, m.text(image), 0o600); err != nil {
					return err
				}
				return os.Rename(hidden, path)
			})
			m.content, m.made = image, m.made+1
		default:
			do(func() error { return os.WriteFile(path, m.text(image), 0o600) })
			m.content, m.made = image, m.made+1
		}
		m.at += time.Duration(m.random.IntN(5000)) * time.Millisecond
	}
	return edits
}

// text returns the manifest with this image.
func (m *manifest) text(image string) []byte {
	return []byte(fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  terminationGracePeriodSeconds: 3\n  containers:\n  - name: main\n    image: %s\n", m.name, image))
}

// compare reports a pod that runs something other than its last manifest.
func (s *singles) compare(last []generation) error {
	containers, err := s.ListContainers(context.Background(), &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return err
	}
	images := map[string][]string{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range containers {
		name := c.Labels[labelPodName]
		images[name] = append(images[name], s.images[c.Id])
	}
	for _, g := range last {
		var want []string
		if g.image != "" {
			want = []string{g.image}
		}
		if !slices.Equal(images[g.name], want) {
			return fmt.Errorf("%s: %v runs, the manifest says %v", g.name, images[g.name], want)
		}
	}
	return nil
}

// Labels of containers.
const (
	labelPodName = "io.kubernetes.pod.name"
	labelPodUID  = "io.kubernetes.pod.uid"
)

// singles is a runtime that notices when a container starts while another pod of the
// same name runs.
type singles struct {
	cri.RuntimeService

	mu       sync.Mutex
	images   map[string]string // by container
	problems []string
	starts   int
}

func (s *singles) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, of *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := s.RuntimeService.CreateContainer(ctx, sandbox, config, of)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[id] = config.GetImage().GetUserSpecifiedImage()
	return id, err
}

func (s *singles) StartContainer(ctx context.Context, id string) error {
	all, err := s.RuntimeService.ListContainers(ctx, nil)
	if err == nil {
		s.check(all, id)
	}
	return s.RuntimeService.StartContainer(ctx, id)
}

func (s *singles) check(all []*runtimeapi.Container, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	i := slices.IndexFunc(all, func(c *runtimeapi.Container) bool { return c.Id == id })
	if i < 0 {
		return
	}
	name, uid := all[i].Labels[labelPodName], all[i].Labels[labelPodUID]
	for _, c := range all {
		if c.Labels[labelPodName] == name && c.Labels[labelPodUID] != uid && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			s.problems = append(s.problems, fmt.Sprintf("%s: %s starts while %s runs", name, uid, c.Labels[labelPodUID]))
		}
	}
}

func (s *singles) report(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.problems {
		t.Error(p)
	}
	if s.starts < perNode {
		t.Errorf("%d starts for %d manifests", s.starts, perNode)
	}
}
