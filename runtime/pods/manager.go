package pods

import (
	"fmt"
	"maps"
	"math/rand"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/outbound"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
	"github.com/podwright/podwright/runtime/pods/internal/crashloop"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/images"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
	"github.com/podwright/podwright/runtime/pods/internal/pullrecords"
	"github.com/podwright/podwright/runtime/pods/internal/userns"
	"github.com/podwright/podwright/runtime/pods/internal/worklimit"
)

// Manager brings pods to their desired state at one runtime. See the package
// documentation for its concurrency contract.
type Manager struct {
	runtime cri.RuntimeService
	options Options
	dialer  *outbound.Dialer // of hooks
	view    *cri.View
	node    criconfig.Node
	puller  *images.Puller
	work    *worklimit.Limiter
	users   *userns.Pool
	// pullRecords says which pods may use what was pulled into imageStore.
	pullRecords *pullrecords.Ledger
	imageStore  imageStore
	dirs        poddir.Store
	// podDirs and logDirs list the folders of all pods.
	podDirs, logDirs *poddir.Listing
	metrics          metrics
	doing            doing
	refreshes        refreshes
	files            nodeFiles
	// interrupted wakes FinishRemovals.
	interrupted chan struct{}
	// selinux is true if the machine labels files.
	selinux bool
	// dnsMissing logs once that there is no cluster DNS.
	dnsMissing sync.Once
	// swappable is true once it is logged that memory volumes may be swapped out.
	swappable atomic.Bool

	// mu guards what follows. It is never held during a call.
	mu      sync.Mutex
	crashes *crashloop.Table
	random  *rand.Rand
	// waiting has the latest start failures.
	waiting reasons
	// holds says, by pod, until when a pod that was reset must not start containers.
	holds map[types.UID]hold
	// attempts has the failed starts and sandboxes in a row, by pod.
	attempts map[types.UID]*attempts
	// mounted has the volumes made ready, by pod and name.
	mounted map[types.UID]map[string]MountedVolume
	// stale has the kind of failure for which a volume was last logged to keep its old content, by pod and name.
	stale map[types.UID]map[string]string
	// stopping records what was done to containers that are being stopped.
	stopping stopNotes
	// stopped are the sandboxes that kills have stopped, with their pods, until these are
	// forgotten or the sandbox is removed.
	stopped map[string]types.UID
	// kills has the number of each pod's latest kill under way.
	kills      map[types.UID]uint64
	killSerial uint64
}

// New returns a manager for one runtime. It does not call the runtime; it reads
// from disk which user IDs pods have, see [Manager.LoadUserRanges]. Its error joins all problems of o.
func New(rt cri.RuntimeService, imageService cri.ImageService, o Options) (*Manager, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.Updater == nil {
		o.Updater = ability[cri.ResourceUpdater](rt)
	}
	if o.Stats == nil {
		o.Stats = ability[cri.StatsReader](rt)
	}
	m := &Manager{
		runtime:  rt,
		options:  o,
		dialer:   outbound.New(o.Outbound, nil),
		view:     cri.NewView(rt, cri.ViewOptions{OwnerID: o.OwnerID, Sequence: o.Sequence, Clock: o.Clock}),
		dirs:     poddir.Store{Path: filepath.Join(o.RootDir, "pods")},
		node:     o.describeNode(),
		crashes:  crashloop.New(o.CrashLoopByExit.policies()),
		random:   o.Rand,
		holds:    map[types.UID]hold{},
		attempts: map[types.UID]*attempts{},
		stopping: stopNotes{},
		stopped:  map[string]types.UID{},
		kills:    map[types.UID]uint64{},
		mounted:  map[types.UID]map[string]MountedVolume{},
		stale:    map[types.UID]map[string]string{},
		doing:    doing{clock: o.Clock, pods: map[types.UID][]*activity{}},
		files:    nodeFiles{calls: foreign.New(o.Clock)},

		interrupted: make(chan struct{}, 1),
	}
	m.podDirs = &poddir.Listing{Path: m.dirs.Path, Clock: o.Clock}
	m.logDirs = &poddir.Listing{Path: o.LogDir, Clock: o.Clock}
	m.selinux = o.Machine.SELinux
	memory := m.allocatable()[v1.ResourceMemory]
	m.node.MemoryAllocatable = memory.Value()
	var err error
	if m.users, err = openUsers(m.dirs, o.UserNamespaces); err != nil {
		return nil, err
	}
	if m.metrics, err = newMetrics(o.Meter); err != nil {
		return nil, err
	}
	m.newPuller(imageService)
	m.newWork()
	return m, nil
}

// ability returns an optional ability of a runtime, or of one that it wraps; nil if none has it.
func ability[T any](rt cri.RuntimeService) (none T) {
	for rt != nil {
		if able, ok := rt.(T); ok {
			return able
		}
		wrapper, ok := rt.(interface{ Unwrap() cri.RuntimeService })
		if !ok {
			break
		}
		rt = wrapper.Unwrap()
	}
	return none
}

// allocatable returns what the node has for pods, with at least CPU and memory.
func (m *Manager) allocatable() v1.ResourceList {
	out := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(goruntime.NumCPU()), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(m.node.MemoryCapacity, resource.BinarySI),
	}
	maps.Copy(out, m.options.Allocatable())
	return out
}

// NeedsSandbox reports whether the pod needs a new sandbox, given what the
// runtime showed (spec/runtime.md 5). The condition PodReadyToStartContainers is
// true exactly if it does not. A nil status means that nothing exists.
func NeedsSandbox(pod *v1.Pod, status *runtime.PodStatus) bool {
	return actions.NeedsSandbox(pod, status).New
}

// Forget drops what the manager remembers of a pod: delays and start failures.
// Other pods may get its user IDs (spec/runtime.md 3.7), so no container of it may run
// any more. Call it when the pod is gone. It does not block.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	m.waiting.forget(uid)
	delete(m.holds, uid)
	delete(m.stopping, uid)
	maps.DeleteFunc(m.stopped, func(_ string, of types.UID) bool { return of == uid })
	delete(m.attempts, uid)
	delete(m.mounted, uid)
	delete(m.stale, uid)
	m.crashes.Forget(uid)
	m.crashes.Prune(m.options.Clock.Now())
	m.mu.Unlock()
	m.puller.Forget(uid)
	m.work.Forget(uid)
	m.freeUsers(uid)
}

// WaitingReasons returns, per container name, why the latest attempt to start
// it failed; containers that started have no entry. Of all pods together the
// latest 1000 failures are kept (spec/runtime.md 22.2). The map is the caller's.
func (m *Manager) WaitingReasons(uid types.UID) map[string]Waiting {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting.of(uid)
}

// noteStart remembers the outcome of a start (spec/runtime.md 7.3).
func (m *Manager) noteStart(uid types.UID, start Action) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if start.Err == nil {
		m.waiting.clear(uid, start.Target)
		return
	}
	m.waiting.note(uid, start.Target, Waiting{Reason: start.Reason, Message: start.Message, RetryAt: start.RetryAt})
}

// checkNames refuses a pod with a name that could not be part of a path.
func checkNames(pod *v1.Pod) error {
	for _, n := range []struct{ what, name string }{
		{"pod UID", string(pod.UID)}, {"pod name", pod.Name}, {"pod namespace", pod.Namespace},
	} {
		if err := podinfo.CheckName(n.what, n.name); err != nil {
			return err
		}
	}
	if strings.ContainsRune(string(pod.UID), '_') {
		return fmt.Errorf("pod UID %q contains an underscore, which separates it in the names of log directories", pod.UID)
	}
	seen := map[string]bool{}
	for _, c := range containersOf(pod) {
		if err := podinfo.CheckName("container name", c.spec.Name); err != nil {
			return err
		}
		if seen[c.spec.Name] {
			return fmt.Errorf("container name %q is used twice", c.spec.Name)
		}
		seen[c.spec.Name] = true
	}
	return nil
}

// logDirectory returns the pod's log directory (spec/runtime.md 3.9).
func (m *Manager) logDirectory(pod *v1.Pod) string {
	return filepath.Join(m.options.LogDir, logDirName(pod))
}

func logDirName(pod *v1.Pod) string { return logFolder(pod.Namespace, pod.Name, pod.UID) }
