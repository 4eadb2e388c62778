package process

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/privatedir"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// What Version reports.
const (
	runtimeName    = "process"
	runtimeVersion = "0.1.0"
	runtimeAPI     = "v1"
)

// Runtime runs containers as processes of the operating system. It is safe for
// concurrent use. It implements [cri.RuntimeService], [cri.ImageService],
// [cri.EventStreamer], [cri.DirectForwarder] and, except for attaching,
// [cri.DirectStreamer].
type Runtime struct {
	root       string
	supervisor Supervisor
	log        logr.Logger
	clock      clock.WithDelayedExecution
	rand       io.Reader
	bootID     string
	lock       *os.File
	watcher    *osproc.Watcher

	closing chan struct{}  // closed by Close
	work    sync.WaitGroup // calls and goroutines under way

	// mu guards what follows, and the fields of sandboxes, containers and
	// subscribers that say so. It is never held during I/O or a call of the clock.
	mu          sync.Mutex
	closed      bool
	sandboxes   map[string]*sandbox
	containers  map[string]*container
	names       map[string]string // what must be unique, to the ID that has it
	folders     map[string]bool   // images asked for
	subscribers map[*subscriber]struct{}
	leftovers   leftovers
	saving      bool // a goroutine writes what is unsaved
}

var (
	_ cri.RuntimeService  = (*Runtime)(nil)
	_ cri.ImageService    = (*Runtime)(nil)
	_ cri.EventStreamer   = (*Runtime)(nil)
	_ cri.DirectStreamer  = (*Runtime)(nil)
	_ cri.DirectForwarder = (*Runtime)(nil)
)

// New opens the runtime at options.Root, creating it if needed, and re-adopts
// what runs there. It fails, with all problems joined, if options are wrong, the
// folder cannot be used or is in use, or the kernel lacks a needed call. The
// caller must Close it.
func New(options Options) (*Runtime, error) {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Rand == nil {
		options.Rand = rand.Reader
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	boot, err := osproc.BootID()
	err = errors.Join(err, checkKernel())
	switch {
	case options.Root == "":
		err = errors.Join(err, errors.New("no Options.Root: name the folder of the runtime"))
	case !filepath.IsAbs(options.Root):
		err = errors.Join(err, fmt.Errorf("folder %q in Options.Root is not an absolute path", options.Root))
	}
	if err != nil {
		return nil, fmt.Errorf("process runtime: %w", err)
	}
	r := &Runtime{
		root: filepath.Clean(options.Root), supervisor: options.Supervisor,
		log: options.Logger, clock: options.Clock, rand: options.Rand, bootID: boot,
		closing:   make(chan struct{}),
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{},
		names: map[string]string{}, folders: map[string]bool{}, subscribers: map[*subscriber]struct{}{},
		leftovers: leftovers{more: make(chan struct{}, 1), next: newBatch(), kill: osproc.KillByEnv},
	}
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("process runtime at %s: %w", r.root, err)
	}
	r.log.Info("The process runtime does not isolate: containers are plain processes of this machine",
		"root", r.root, "supervised", r.supervisor.enabled(), "runningContainers", r.running())
	return r, nil
}

// checkKernel tries the newest calls the runtime depends on.
func checkKernel() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("needs Linux 5.8 or newer (pidfd_open: %w)", err)
	}
	unix.Close(fd)
	fd, err = unix.Openat2(unix.AT_FDCWD, "/proc/self", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return fmt.Errorf("needs Linux 5.8 or newer with /proc mounted (openat2: %w)", err)
	}
	unix.Close(fd)
	return nil
}

// open makes the folder, locks it, and reads and re-adopts what is in it.
func (r *Runtime) open() (err error) {
	for _, dir := range []string{r.root, r.path(sandboxesDir), r.path(containersDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// An existing folder may have been made by hand, with another mode.
	if err := privatedir.Close(r.root); err != nil {
		return err
	}
	if err := privatedir.Check(r.root); err != nil {
		return err
	}
	if r.lock, err = lockFile(r.path(lockName)); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("another runtime uses this folder: %w", err)
		}
		return err
	}
	if r.watcher, err = osproc.NewWatcher(); err != nil {
		r.lock.Close()
		return err
	}
	if err := r.recover(); err != nil {
		r.beginClose()
		r.work.Wait()
		r.release()
		return err
	}
	r.work.Go(r.killLeftovers)
	return nil
}

func (r *Runtime) path(parts ...string) string {
	return filepath.Join(append([]string{r.root}, parts...)...)
}

// Close stops watching and leaves containers running. Calls under way end with
// [runtime.ErrUnavailable]; Close waits for them until ctx ends, and returns the
// context's error if some did not end. A grace period under way is given up: the
// container has had its stop signal, and the next StopContainer kills it. Closing twice
// is allowed.
func (r *Runtime) Close(ctx context.Context) error {
	if !r.beginClose() {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.work.Wait()
		r.release()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the process runtime: %w", ctxError(ctx))
	}
}

// beginClose ends what is under way. It returns false if that was done before.
func (r *Runtime) beginClose() (first bool) {
	r.mu.Lock()
	first = !r.closed
	r.closed = true
	r.mu.Unlock()
	if first {
		close(r.closing)
		r.watcher.Close()
	}
	return first
}

// release frees what the runtime holds of its containers, once nothing uses it any
// more.
func (r *Runtime) release() {
	for _, c := range r.containers {
		if c.timer != nil {
			c.timer.Stop()
		}
		if c.run != nil {
			c.run.release(false)
		}
	}
	r.lock.Close()
}

// enter begins a call. leave must be called at its end.
func (r *Runtime) enter(ctx context.Context) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, ctxError(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("the process runtime is closed: %w", runtime.ErrNotSent)
	}
	r.work.Add(1)
	return r.work.Done, nil
}

// spawn runs f in a goroutine that Close waits for. It returns false, and does
// nothing, if the runtime is closed.
func (r *Runtime) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.work.Go(f)
	return true
}

// wait waits until done is closed, the call's context ends, or the runtime is closed.
func (r *Runtime) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctxError(ctx)
	case <-r.closing:
		return errClosed()
	}
}

func errClosed() error {
	return fmt.Errorf("the process runtime is closed: %w", runtime.ErrUnavailable)
}

// ctxError is the error of a call whose context has ended.
func ctxError(ctx context.Context) error {
	class := runtime.ErrCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		class = runtime.ErrDeadline
	}
	return fmt.Errorf("%w: %w", class, context.Cause(ctx))
}

// newID returns a new random ID. IDs are the only names that become paths.
func (r *Runtime) newID() (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(r.rand, b[:]); err != nil {
		return "", fmt.Errorf("random ID: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// slot serialises the operations on one object. Unlike a mutex it may be held
// over I/O: waiting for it ends with the call's context.
type slot chan struct{}

func newSlot() slot { return make(slot, 1) }

func (s slot) release() { <-s }

func (r *Runtime) acquire(ctx context.Context, s slot) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctxError(ctx)
	case <-r.closing:
		return errClosed()
	}
}

// Version returns the runtime's name, "process", and versions.
func (r *Runtime) Version(ctx context.Context, _ string) (*runtimeapi.VersionResponse, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return &runtimeapi.VersionResponse{
		Version: cri.APIVersion, RuntimeName: runtimeName,
		RuntimeVersion: runtimeVersion, RuntimeApiVersion: runtimeAPI,
	}, nil
}

// Status reports the runtime and its network as ready: the network is the host's. Only as root can a container be without
// the agent's groups.
func (r *Runtime) Status(ctx context.Context, _ bool) (*runtimeapi.StatusResponse, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{
		Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true},
			{Type: runtimeapi.NetworkReady, Status: true},
		},
	}, Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: os.Geteuid() == 0}}, nil
}
