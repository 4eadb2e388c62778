package containerdtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/patience"
)

const (
	// EndpointVariable names the environment variable that makes [Start] use a
	// running CRI runtime instead of a private containerd.
	EndpointVariable = "CONTAINER_RUNTIME_ENDPOINT"

	// ProgramsVariable names the environment variable with the folder of a containerd other than
	// the machine's: it holds containerd, ctr and containerd-shim-runc-v2, and runc unless the
	// machine's should be used. Private instances run these.
	ProgramsVariable = "PODWRIGHT_CONTAINERD"

	// Image is the test image: busybox with all applets in /bin, run as root,
	// default command sh. It is present in every private instance and cannot be pulled.
	Image = "localhost/busybox:test"

	pauseReference = "localhost/pause:test"
	pausePackage   = "github.com/podwright/podwright/internal/containerdtest/pause"
)

var (
	startTimeout   = patience.Of(30 * time.Second)
	foreignTimeout = patience.Of(5 * time.Second)
	importTimeout  = patience.Of(60 * time.Second)
	stopTimeout    = patience.Of(10 * time.Second)
	cleanupTimeout = patience.Of(40 * time.Second)
)

// Instance is a CRI runtime for tests. Its fields do not change. Its methods may be called by one
// goroutine at a time; because they end the test on failure, that must be the test's goroutine.
// Methods that need a private runtime skip the test on any other.
type Instance struct {
	// Endpoint is the CRI socket, "unix:///…".
	Endpoint string
	// Image is the name of an image that is present: [Image], or a similar one that a foreign
	// runtime pulled for this test.
	Image string
	// Root is the instance's folder, removed at the end of the test. Tests may
	// put files there. With a foreign runtime it is a plain temporary folder.
	Root string
	// Private is false if the runtime is that of [EndpointVariable]: then other pods may live in
	// it, and it cannot be killed.
	Private bool

	// before holds the sandboxes and containers that existed when the test began.
	before  []string
	tb      testing.TB
	tools   *tools
	layout  layout
	slot    *slot
	process *process
}

// Start gives tb a runtime that is ready to run pods and has [Image]. Unless [EndpointVariable] is
// set, it starts a private containerd, which ends with the test: everything that still runs in it
// is killed, and its folder, mounts, network interfaces and cgroups are removed. If this machine
// cannot run one, the test fails with a list of what is missing.
func Start(tb testing.TB) *Instance {
	tb.Helper()
	if endpoint := os.Getenv(EndpointVariable); endpoint != "" {
		return useForeign(tb, endpoint)
	}
	t, err := thisMachine().find()
	if err != nil {
		tb.Fatalf("containerdtest: no private containerd on this machine:\n%v", err)
	}
	i, err := newInstance(tb, t)
	if err != nil {
		tb.Fatalf("containerdtest: %v", err)
	}
	tb.Cleanup(i.cleanup)
	if err := i.start(tb.Context()); err != nil {
		tb.Fatalf("containerdtest: %v", err)
	}
	return i
}

// newInstance reserves a slot and lays out the files. Nothing runs yet.
func newInstance(tb testing.TB, t *tools) (*Instance, error) {
	s, leftover, err := takeSlot(slotsFolder)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Instance, error) { return nil, errors.Join(err, s.release(false)) }
	if leftover != "" {
		ctx, cancel := context.WithTimeout(tb.Context(), cleanupTimeout)
		defer cancel()
		if err := removeLeftovers(ctx, layout{leftover}, s, t); err != nil {
			return fail(fmt.Errorf("cleaning up after an earlier test run: %w", err))
		}
	}
	root, err := os.MkdirTemp("", "podwright-")
	if err != nil {
		return fail(err)
	}
	if err := s.claim(root); err != nil {
		return fail(errors.Join(err, os.RemoveAll(root)))
	}
	l := layout{root}
	if err := errors.Join(l.mount(), l.write(s, t)); err != nil {
		return fail(errors.Join(err, unmountFrom(root), os.RemoveAll(root)))
	}
	return &Instance{
		Endpoint: "unix://" + l.socket(),
		Image:    Image,
		Root:     root,
		Private:  true,
		tb:       tb, tools: t, layout: l, slot: s,
	}, nil
}

// start brings containerd up and, at the same time, builds the images.
func (i *Instance) start(ctx context.Context) error {
	var (
		wg       sync.WaitGroup
		imageErr error
	)
	wg.Go(func() { imageErr = buildArchive(ctx, i.layout.images(), i.slot.pause(), i.tools) })
	upErr := i.up(ctx)
	wg.Wait()
	if err := errors.Join(upErr, imageErr); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	_, err := run(ctx, i.tools.ctr, "-a", i.layout.socket(), "-n", "k8s.io", "images", "import", i.layout.images())
	return err
}

// up starts the daemon and waits until it is ready.
func (i *Instance) up(ctx context.Context) error {
	p, err := startProcess(i.tools, i.layout)
	if err != nil {
		return err
	}
	i.process = p
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return p.waitReady(ctx, i.Endpoint)
}

// Kill9 kills the daemon with SIGKILL and returns when it is gone. Containers
// keep running, as after a crash.
func (i *Instance) Kill9() {
	i.tb.Helper()
	i.mustBePrivate("Kill9")
	if err := i.process.kill(); err != nil {
		i.tb.Fatalf("containerdtest: %v", err)
	}
}

// Restart starts the daemon again, after an orderly stop if it is running, and returns when it is
// ready. Containers keep running.
func (i *Instance) Restart() {
	i.tb.Helper()
	i.mustBePrivate("Restart")
	if err := i.process.stop(); err != nil {
		i.tb.Fatalf("containerdtest: %v", err)
	}
	if err := i.up(i.tb.Context()); err != nil {
		i.tb.Fatalf("containerdtest: %v", err)
	}
}

// PID returns the process ID of the daemon that was started last.
func (i *Instance) PID() int {
	i.tb.Helper()
	i.mustBePrivate("PID")
	return i.process.command.Process.Pid
}

// Ctr runs ctr, containerd's own client, in the CRI namespace and returns its standard output.
func (i *Instance) Ctr(args ...string) string {
	i.tb.Helper()
	i.mustBePrivate("Ctr")
	ctx, cancel := context.WithTimeout(i.tb.Context(), importTimeout)
	defer cancel()
	out, err := run(ctx, i.tools.ctr, append([]string{"-a", i.layout.socket(), "-n", "k8s.io"}, args...)...)
	if err != nil {
		i.tb.Fatalf("containerdtest: %v", err)
	}
	return out
}

// Log returns what the daemon has written so far.
func (i *Instance) Log() string {
	i.tb.Helper()
	i.mustBePrivate("Log")
	content, err := os.ReadFile(i.layout.log())
	if err != nil {
		i.tb.Fatalf("containerdtest: %v", err)
	}
	return string(content)
}

// AddImage creates an image like [Image] plus size bytes that no other image has, so that removing
// it frees them, and imports it under this name.
func (i *Instance) AddImage(reference string, size int) {
	i.tb.Helper()
	i.mustBePrivate("AddImage")
	busybox, err := os.ReadFile(i.tools.busybox)
	if err != nil {
		i.tb.Fatalf("containerdtest: %v", err)
	}
	img := busyboxImage(reference, busybox, []string{"sh", "sleep"})
	// From a seed, because equal layers would be stored only once.
	seed := sha256.Sum256([]byte(reference))
	filler := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(filler) // never fails
	img.files = append(img.files, file{name: "filler", mode: 0o644, content: filler})
	archive := filepath.Join(i.tb.TempDir(), "image.tar")
	f, err := os.Create(archive)
	if err != nil {
		i.tb.Fatalf("containerdtest: %v", err)
	}
	if err := errors.Join(writeArchive(f, img), f.Close()); err != nil {
		i.tb.Fatalf("containerdtest: %v", err)
	}
	i.Ctr("images", "import", archive)
}

// Shrink reduces the file system of the instance to size bytes, which must be more than what is
// used.
func (i *Instance) Shrink(size int64) {
	i.tb.Helper()
	i.mustBePrivate("Shrink")
	if err := unix.Mount("podwright-test", i.Root, "", unix.MS_REMOUNT, fmt.Sprintf("size=%d", size)); err != nil {
		i.tb.Fatalf("containerdtest: remount %s with %d bytes: %v", i.Root, size, err)
	}
}

func (i *Instance) mustBePrivate(method string) {
	i.tb.Helper()
	i.NeedPrivate(i.tb, "needs "+method)
}

// buildArchive writes the images into archive and the pause binary to pauseFile. The go tool leaves
// an up-to-date pauseFile alone, which is much faster than linking it again.
func buildArchive(ctx context.Context, archive, pauseFile string, t *tools) error {
	if err := buildPause(ctx, t.goTool, pauseFile); err != nil {
		return err
	}
	pause, err := os.ReadFile(pauseFile)
	if err != nil {
		return err
	}
	busybox, err := os.ReadFile(t.busybox)
	if err != nil {
		return err
	}
	applets, err := listApplets(ctx, t.busybox)
	if err != nil {
		return err
	}
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	err = writeArchive(f, busyboxImage(Image, busybox, applets), pauseImage(pauseReference, pause))
	return errors.Join(err, f.Close())
}
