package machine

import (
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

var (
	exploreStates = flag.Int("explore.states", 0, "stop exploring after this many states per pair; 0: never")
	exploreDepth  = flag.Int("explore.depth", defaultDepth, "stop exploring after this many moves; 0: never")
	exploreOne    = flag.Int("explore.one", defaultOne, "the same for a single pod; 0: to the end")
	walkSteps     = flag.Int("walk.steps", 1_000_000, "steps of the random walks, all together")
	walkSeed      = flag.Uint64("walk.seed", 0, "seed of the random walks; 0: a new one")
)

// verb is a move of the outside world.
type verb uint8

const (
	vCreate verb = iota
	vRestart
	vUpdate
	vDelete
	vTerminal
	vKill
	vKillShort
	vEvict
	vRuntimeKill
	vTake
	vObserveNothing
	vObserveRunning
	vObserveOther
	vObserveRemembered
	vObserveUnknown
	vObserveFailed
	vStale
	vViewReady
	vOK
	vTerminalOK
	vError
	vPanic
	vCanceled
	vViewError
	vElapse
	vForget
	vHold
	vRelease
	perUID // moves below are not about one UID
	vKnown0
	vKnownA
	vKnownB
	vKnownAB
	vStopDetach
	vStopTerminate
	vStopNow
	verbs
)

// move is one step of a path.
type move struct {
	verb verb
	pod  uint8
}

// pair is the universe of one exploration: two similar pods.
type pair struct {
	name     string
	config   Config
	uids     [2]types.UID
	alive    [2]*v1.Pod
	changed  [2]*v1.Pod
	deleting [2]*v1.Pod
	terminal [2]*v1.Pod
	mirror   [2]*v1.Pod
	running  [2]*runtime.Pod
	ids      map[any]byte
}

func newPair(name string, static bool, config Config) *pair {
	p := &pair{name: name, config: config, uids: [2]types.UID{"a", "b"}, ids: map[any]byte{}}
	for i, uid := range p.uids {
		attrs := map[string]string{"spec": "30"}
		podName := string(uid)
		if static {
			attrs["static"] = "web"
			podName = "web"
		}
		p.alive[i] = makePod(uid, attrs)
		p.changed[i] = makePod(uid, attrs)
		p.mirror[i] = makePod(uid+"-mirror", nil)
		attrs["delete"] = "5"
		p.deleting[i] = makePod(uid, attrs)
		delete(attrs, "delete")
		attrs["phase"] = "Failed"
		p.terminal[i] = makePod(uid, attrs)
		p.running[i] = &runtime.Pod{UID: uid, Name: podName, Namespace: "default"}
		p.ids[p.alive[i]], p.ids[p.changed[i]] = 1, 1
		p.ids[p.deleting[i]], p.ids[p.terminal[i]], p.ids[p.running[i]] = 2, 3, 1
	}
	p.ids[(*v1.Pod)(nil)] = 0
	p.ids[(*runtime.Pod)(nil)] = 0
	return p
}

// makePod builds a pod from the attributes scenario files use.
func makePod(uid types.UID, attrs map[string]string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid), Namespace: "default"}}
	pod.Spec.Containers = []v1.Container{{Name: "c"}}
	for k, v := range attrs {
		switch k {
		case "spec":
			pod.Spec.TerminationGracePeriodSeconds = seconds(v)
		case "static":
			pod.Name = v
			pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		case "delete":
			at := metav1.NewTime(time.Unix(1, 0))
			pod.DeletionTimestamp = &at
			if v != "" {
				pod.DeletionGracePeriodSeconds = seconds(v)
			}
		case "phase":
			pod.Status.Phase = v1.PodPhase(v)
		case "image":
			pod.Spec.Containers[0].Image = v
		}
	}
	return pod
}

func seconds(s string) *int64 {
	var n int64
	if _, err := fmt.Sscan(s, &n); err != nil {
		return nil
	}
	return &n
}

// make makes one move and reports whether it was possible.
func (p *pair) make(w *world, mv move) (bool, error) {
	i := mv.pod
	uid := p.uids[i]
	update := func(t UpdateType, pod *v1.Pod, k *Kill) (bool, error) {
		_, err := w.update(Update{Type: t, Pod: pod, Kill: k})
		return true, err
	}
	switch mv.verb {
	case vCreate:
		return update(TypeCreate, p.alive[i], nil)
	case vRestart:
		return update(TypeRestart, p.alive[i], nil)
	case vUpdate:
		_, err := w.update(Update{Type: TypeUpdate, Pod: p.changed[i], Mirror: p.mirror[i]})
		return true, err
	case vDelete:
		return update(TypeUpdate, p.deleting[i], nil)
	case vTerminal:
		_, err := w.update(Update{Type: TypeSync, Pod: p.terminal[i], ViewStopped: true})
		return true, err
	case vKill:
		return update(TypeKill, p.alive[i], &Kill{Completion: Completion{Ch: w.completion(uid)}})
	case vKillShort:
		two := int64(2)
		return update(TypeKill, p.alive[i], &Kill{Grace: &two})
	case vEvict:
		return update(TypeKill, p.alive[i], &Kill{Evict: true, StatusFunc: status("Evicted"), Completion: Completion{Ch: w.completion(uid)}})
	case vRuntimeKill:
		_, err := w.update(Update{Type: TypeKill, Running: p.running[i], Kill: &Kill{Completion: Completion{Ch: w.completion(uid)}}})
		return true, err
	case vTake:
		return w.take(uid)
	case vObserveNothing:
		return w.observe(uid, Observation{Known: true})
	case vObserveRunning:
		return w.observe(uid, Observation{Known: true, Running: true})
	case vObserveOther:
		return w.observe(uid, Observation{Known: true, Others: []Other{{Running: p.running[1-i]}}})
	case vObserveRemembered:
		two := int64(2)
		return w.observe(uid, Observation{Known: true, Others: []Other{{Running: p.running[1-i], Pod: p.alive[1-i], Kill: &Kill{Grace: &two}}}})
	case vObserveUnknown:
		return w.observe(uid, Observation{})
	case vObserveFailed:
		return w.observe(uid, Observation{Failed: true})
	case vStale:
		return w.stale(uid)
	case vViewReady:
		return w.viewReady(uid)
	default:
		return p.makeEnd(w, mv)
	}
}

// makeEnd makes the moves that end something.
func (p *pair) makeEnd(w *world, mv move) (bool, error) {
	i := mv.pod
	uid := p.uids[i]
	known := func(pods ...*v1.Pod) (bool, error) {
		return true, w.apply(&Event{Kind: EventSyncKnown, Desired: pods, Known: func(types.UID, PodSync) {}})
	}
	stop := func(mode StopMode) (bool, error) {
		if w.m.stopping {
			return false, nil
		}
		return true, w.apply(&Event{Kind: EventStop, Stop: Stop{Mode: mode}})
	}
	switch mv.verb {
	case vOK:
		return w.done(uid, Result{SyncResult: SyncResult{Acted: true}})
	case vTerminalOK:
		if c := w.life(uid).call; c == nil || c.Phase != Setup {
			return false, nil
		}
		return w.done(uid, Result{SyncResult: SyncResult{Terminal: true}})
	case vError:
		return w.done(uid, Result{Err: errTest, SyncResult: SyncResult{Terminal: true}})
	case vPanic:
		return p.panics(w, mv)
	case vCanceled:
		return w.done(uid, Result{Err: errTest, Canceled: true})
	case vViewError:
		if c := w.life(uid).call; c == nil || !c.NeedsView {
			return false, nil
		}
		return w.done(uid, Result{Err: errTest, Failure: FailureView, Canceled: w.life(uid).call.cause != CauseNone})
	case vElapse:
		return w.elapse(uid)
	case vForget:
		return w.forget(uid)
	case vHold:
		return w.hold(uid)
	case vRelease:
		return w.unhold(uid)
	case vKnown0:
		return known()
	case vKnownA:
		return known(p.alive[0])
	case vKnownB:
		return known(p.alive[1])
	case vKnownAB:
		return known(p.alive[0], p.alive[1])
	case vStopDetach:
		return stop(StopDetach)
	case vStopTerminate:
		return stop(StopTerminate)
	case vStopNow:
		return stop(StopNow)
	}
	return false, nil
}

// panics ends a call with a panic and checks that the other pod did not notice (I22).
func (p *pair) panics(w *world, mv move) (bool, error) {
	other := []int{1 - int(mv.pod)}
	before := w.key(other, true, p.id, nil)
	ok, err := w.done(p.uids[mv.pod], Result{Err: errTest, Failure: FailurePanic})
	if !ok || err != nil {
		return ok, err
	}
	after := w.key(other, true, p.id, nil)
	// The first bytes are not about the pod.
	if string(before[2:]) != string(after[2:]) {
		return true, fmt.Errorf("I22: a panic of %s changed %s", p.uids[mv.pod], p.uids[other[0]])
	}
	return true, nil
}

func (p *pair) id(v any) byte {
	b, ok := p.ids[v]
	if !ok {
		return 200
	}
	return b
}

func status(reason string) func(*v1.PodStatus) {
	return func(s *v1.PodStatus) { s.Reason = reason }
}

// completion returns the channel for a kill: the one still open if there is one,
// because giving it again must be harmless (Q5).
func (w *world) completion(uid types.UID) chan<- struct{} {
	if l := w.life(uid); len(l.open) > 0 {
		return l.open[0]
	}
	return make(chan struct{})
}

func allMoves() []move {
	var all []move
	for v := range perUID {
		all = append(all, move{v, 0}, move{v, 1})
	}
	for v := perUID + 1; v < verbs; v++ {
		all = append(all, move{v, 0})
	}
	return all
}

func pairs() []*pair {
	config := Config{
		SyncFrequency: time.Minute, SetupBackOff: BackOff{time.Second, time.Second},
		TerminatingBackOff: BackOff{time.Second, time.Second}, StuckAfter: 30 * time.Second,
	}
	looking := config
	looking.Views, looking.Observe = true, true
	return []*pair{
		newPair("plain", false, config),
		newPair("static", true, config),
		newPair("plain with views", false, looking),
		newPair("static with views", true, looking),
	}
}

func (p *pair) begin() *world {
	w := newWorld(p.config, p.uids[0], p.uids[1])
	if err := w.apply(&Event{Kind: EventRun}); err != nil {
		panic(err)
	}
	return w
}

// TestExplore visits every state two pods can get into, breadth first, and checks
// the invariants I1 to I26 in each (L2). States that differ only in which pod is
// which count once.
func TestExplore(t *testing.T) {
	for _, p := range pairs() {
		t.Run(strings.ReplaceAll(p.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p.explore(t, allMoves(), false)
		})
	}
}

// TestExploreOne visits every state a single pod can get into. By default it has
// no bound, except with the race detector.
func TestExploreOne(t *testing.T) {
	var moves []move
	for _, mv := range allMoves() {
		switch {
		case mv.pod == 1, mv.verb == vKnownB, mv.verb == vKnownAB, mv.verb == vObserveOther, mv.verb == vObserveRemembered:
		default:
			moves = append(moves, mv)
		}
	}
	for _, p := range pairs() {
		t.Run(strings.ReplaceAll(p.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			if !p.explore(t, moves, true) && *exploreOne == 0 {
				t.Error("not complete")
			}
		})
	}
}

type node struct {
	world  *world
	parent int32
	move   move
}

// explore visits the states that the moves lead to, and reports whether it reached all of them.
func (p *pair) explore(t *testing.T, moves []move, full bool) bool {
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{}
	var buf []byte
	visit := func(w *world) bool {
		buf = w.key([]int{0, 1}, full, p.id, buf[:0])
		h := maphash.Bytes(seed, buf)
		buf = w.key([]int{1, 0}, full, p.id, buf[:0])
		h = min(h, maphash.Bytes(seed, buf))
		if _, ok := seen[h]; ok {
			return false
		}
		seen[h] = struct{}{}
		return true
	}
	nodes := []node{{world: p.begin(), parent: -1}}
	visit(nodes[0].world)
	transitions, depth, level := 0, 0, 1
	for i := 0; i < len(nodes); i++ {
		if i == level {
			depth++
			level = len(nodes)
			limit := *exploreDepth
			if full {
				limit = *exploreOne
			}
			if limit > 0 && depth >= limit {
				break
			}
		}
		if *exploreStates > 0 && !full && len(nodes) >= *exploreStates {
			break
		}
		from := nodes[i].world
		nodes[i].world = nil // the path is enough from here on
		var w *world
		for _, mv := range moves {
			if w == nil {
				w = from.clone()
			}
			ok, err := p.make(w, mv)
			if !ok {
				continue // nothing happened: w can be used for the next move
			}
			transitions++
			if err != nil {
				t.Fatalf("%v\n%s", err, p.script(p.path(nodes, i, mv)))
			}
			if visit(w) {
				nodes = append(nodes, node{w, int32(i), mv}) //nolint:gosec // far fewer
			}
			w = nil
		}
	}
	complete, how := nodes[len(nodes)-1].world == nil, "cut off"
	if complete {
		how = "complete"
	}
	t.Logf("%s: %d states, %d transitions, depth %d (%s), 26 invariants, 0 violations", p.name, len(nodes), transitions, depth, how)
	return complete
}

func (p *pair) path(nodes []node, i int, last move) []move {
	path := []move{last}
	for ; nodes[i].parent >= 0; i = int(nodes[i].parent) {
		path = append([]move{nodes[i].move}, path...)
	}
	return path
}

// TestWalk makes long random walks through the same worlds.
func TestWalk(t *testing.T) {
	seed := *walkSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	all := pairs()
	for k, p := range all {
		t.Run(strings.ReplaceAll(p.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			steps := *walkSteps / len(all)
			random := rand.New(rand.NewPCG(seed, uint64(k)))
			w := p.begin()
			var path []move
			for done := 0; done < steps; {
				mv := move{verb(random.IntN(int(verbs))), uint8(random.IntN(2))}
				if mv.verb >= vStopDetach && random.IntN(50) > 0 {
					continue // a stop ends the walk's world; not too often
				}
				ok, err := p.make(w, mv)
				if !ok {
					continue
				}
				done++
				path = append(path, mv)
				if err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, p.script(path))
				}
				if w.m.stopping && w.m.InFlight() == 0 || len(path) > 2000 {
					w, path = p.begin(), nil
				}
			}
			t.Logf("%s: %d random steps, seed %d, 26 invariants, 0 violations", p.name, steps, seed)
		})
	}
}
