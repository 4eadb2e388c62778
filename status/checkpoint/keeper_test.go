package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/status/checkpoint"
)

// bench is a keeper on a disk in memory, in a bubble of virtual time.
type bench struct {
	t      *testing.T
	disk   *checkpointtest.Disk
	keeper *checkpoint.Keeper
	stop   func()

	mu      sync.Mutex
	fail    error // of every write
	writes  int   // record files
	batches int
	hold    chan struct{} // a sync waits for it, if not nil
}

func newBench(t *testing.T, disk *checkpointtest.Disk) *bench {
	b := &bench{t: t, disk: disk}
	points := &checkpointtest.Points{FS: disk, Before: b.before}
	b.keeper = checkpoint.NewKeeper(checkpoint.Options{Store: checkpoint.NewFiles(points), BootID: "boot", Reserve: -1})
	b.stop = run(t, b.keeper)
	return b
}

// run loads the records and runs the keeper until stop, or the end of the test.
func run(t *testing.T, k *checkpoint.Keeper) (stop func()) {
	if _, err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// ensure changes the record of a pod.
func ensure(k *checkpoint.Keeper, uid types.UID, class checkpoint.Class) {
	k.Ensure(uid, func(*checkpoint.Record) checkpoint.Class { return class })
}

func (b *bench) before(op checkpointtest.Op) error {
	b.mu.Lock()
	fail, hold := b.fail, b.hold
	switch op.Kind {
	case "write":
		b.writes++
	case "sync":
		b.batches++
	}
	b.mu.Unlock()
	if op.Kind == "sync" && hold != nil {
		<-hold
	}
	if op.Kind == "write" || op.Kind == "remove" && !strings.HasPrefix(op.Name, ".tmp-") {
		return fail
	}
	return nil
}

func (b *bench) set(fail error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = fail
}

func (b *bench) counts() (writes, batches int) {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writes, b.batches
}

// note changes the version of a pod's record.
func (b *bench) note(uid types.UID, class checkpoint.Class, version uint64) {
	b.keeper.Ensure(uid, func(r *checkpoint.Record) checkpoint.Class {
		r.Version = version
		return class
	})
}

// onDisk is the version that survives a loss of power, 0 for none.
func (b *bench) onDisk(uid types.UID) uint64 {
	for _, r := range load(b.t, b.disk.LosePower(nil)).Records {
		if r.UID == uid {
			return r.Version
		}
	}
	return 0
}

// status.md 9.2, 9.3: lazy changes wait a second to be written together, a durable change takes
// them along at once, an update without a change is not written, and on stop everything left is
// written.
func TestLazyChangesWaitDurableOnesDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &checkpointtest.Disk{})
		for v := range uint64(10) {
			b.note("a", checkpoint.Lazy, v+1)
			<-time.After(50 * time.Millisecond)
		}
		if n, _ := b.counts(); n != 0 {
			t.Errorf("%d writes in the first half second", n)
		}
		<-time.After(600 * time.Millisecond)
		if n, _ := b.counts(); n != 1 || b.onDisk("a") != 10 {
			t.Errorf("%d writes after a second, version %d", n, b.onDisk("a"))
		}
		b.note("a", checkpoint.Lazy, 11)
		b.note("a", checkpoint.Durable, 12)
		if err := b.keeper.Sync(t.Context(), "a"); err != nil || b.onDisk("a") != 12 {
			t.Errorf("Sync: %v, version %d", err, b.onDisk("a"))
		}
		b.note("a", checkpoint.Unchanged, 13)
		<-time.After(time.Hour)
		if n, _ := b.counts(); n != 2 || b.keeper.Get("a").Version != 12 {
			t.Errorf("%d writes, version in memory %d", n, b.keeper.Get("a").Version)
		}
		b.note("a", checkpoint.Lazy, 14)
		b.stop()
		if b.onDisk("a") != 14 || b.keeper.Get("a").BootID != "boot" {
			t.Errorf("after stop: version %d of %+v", b.onDisk("a"), b.keeper.Get("a"))
		}
	})
}

// CK10: changes that come while the disk is busy go in one batch.
func TestChangesShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &checkpointtest.Disk{})
		b.hold = make(chan struct{})
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				uid := types.UID(fmt.Sprint("pod-", i))
				b.note(uid, checkpoint.Durable, 1)
				if err := b.keeper.Sync(t.Context(), uid); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(b.hold)
		wg.Wait()
		if writes, batches := b.counts(); writes != 1000 || batches > 2 {
			t.Errorf("%d writes in %d batches", writes, batches)
		}
		if n := len(load(t, b.disk.LosePower(nil)).Records); n != 1000 {
			t.Errorf("%d records", n)
		}
	})
}

// status.md 9.11, CK8: Sync returns the reason, the write is retried after pauses of up to 60 s
// without being asked, health and figures show it, one pod's Sync does not wait for another's, and
// everything recovers once there is room.
func TestFullDiskIsRetriedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &checkpointtest.Disk{})
		b.set(syscall.ENOSPC)
		b.note("a", checkpoint.Durable, 1)
		synctest.Wait() // for the first attempt; Sync makes the second at once
		if err := b.keeper.Sync(t.Context(), "a"); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Sync on a full disk: %v", err)
		}
		var fault *checkpoint.FaultError
		if err := troubles(b.keeper); !errors.As(err, &fault) || fault.Pending != 1 || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Healthy: %v", err)
		}
		if b.keeper.Problem("a") == nil || b.keeper.Problem("b") != nil || b.keeper.Stats().Failures == 0 {
			t.Errorf("problem %v, stats %+v", b.keeper.Problem("a"), b.keeper.Stats())
		}
		var pauses []time.Duration
		last, begin := 0, time.Now()
		for len(pauses) < 10 {
			<-time.After(100 * time.Millisecond)
			if n, _ := b.counts(); n != last {
				pauses, last, begin = append(pauses, time.Since(begin).Round(time.Second)), n, time.Now()
			}
		}
		if want := []time.Duration{2, 4, 8, 16, 32, 60, 60, 60}; !slices.Equal(pauses[1:9], scaled(want)) {
			t.Errorf("pauses %v", pauses)
		}
		b.set(nil)
		if err := b.keeper.Sync(t.Context(), "a"); err != nil || b.onDisk("a") != 1 {
			t.Errorf("with room again: %v", err)
		}
		if err := errors.Join(troubles(b.keeper), b.keeper.Problem("a")); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}

func scaled(seconds []time.Duration) []time.Duration {
	for i := range seconds {
		seconds[i] *= time.Second
	}
	return seconds
}

// CK8: a record that cannot be written harms no other.
func TestBadRecordHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &checkpointtest.Disk{})
		b.keeper.Ensure("huge", func(r *checkpoint.Record) checkpoint.Class {
			r.Source = strings.Repeat("x", checkpoint.MaxSize)
			return checkpoint.Durable
		})
		if err := b.keeper.Sync(t.Context(), "huge"); err == nil {
			t.Error("a record over the limit was written")
		}
		for v := range uint64(20) {
			b.note("a", checkpoint.Durable, v+1)
			if err := b.keeper.Sync(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if err := troubles(b.keeper); err == nil || b.onDisk("a") != 20 {
			t.Errorf("health %v, version %d", err, b.onDisk("a"))
		}
	})
}

// status.md 9.2: at the end every record is tried once: one that cannot be written keeps none of
// many others from the disk.
func TestBadRecordHarmsNoOtherAtTheEnd(t *testing.T) {
	const pods = 3000 // several batches
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &checkpointtest.Disk{})
		for i := range pods {
			b.note(types.UID(fmt.Sprintf("p%04d", i)), checkpoint.Lazy, 1)
		}
		b.keeper.Ensure("huge", func(r *checkpoint.Record) checkpoint.Class {
			r.Source = strings.Repeat("x", checkpoint.MaxSize)
			return checkpoint.Lazy
		})
		b.stop()
		if n := len(load(t, b.disk).Records); n != pods {
			t.Errorf("%d of %d records are written", n, pods)
		}
	})
}

// TestNothingWaitsForALogger: log lines about the store may take as long as they like.
func TestNothingWaitsForALogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		fail := func() error {
			if broken.Load() {
				return syscall.EIO
			}
			return nil
		}
		var lines []string
		release := make(chan struct{})
		written := map[types.UID]int{}
		k := checkpoint.NewKeeper(checkpoint.Options{
			Store: checkpoint.NewFiles(&checkpointtest.Points{
				FS: &checkpointtest.Disk{}, Before: func(checkpointtest.Op) error { return fail() }, OnRead: func(string) error { return fail() },
			}),
			Reserve: -1,
			Written: func(uid types.UID) { written[uid]++ },
			Logger:  funcr.New(func(_, line string) { lines = append(lines, line); <-release }, funcr.Options{}),
		})
		broken.Store(true)
		loaded := make(chan error)
		go func() { _, err := k.Load(t.Context()); loaded <- err }()
		synctest.Wait()
		k.Get("a")
		release <- struct{}{}
		if err := <-loaded; !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
		broken.Store(false)
		stop := run(t, k)
		for n := range 20 { // more turns than lines may wait
			broken.Store(true)
			ensure(k, "a", checkpoint.Durable)
			if err := k.Sync(t.Context(), "a"); !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
			broken.Store(false)
			for _, uid := range []types.UID{"b", "a"} {
				ensure(k, uid, checkpoint.Durable)
				err := k.Sync(t.Context(), uid)
				synctest.Wait()
				if err != nil || written[uid] <= n {
					t.Errorf("while the logger is busy: %v, %d writes of %s are known", err, written[uid], uid)
				}
			}
		}
		close(release)
		stop()
		if n := len(lines); n > 18 || !strings.Contains(lines[1], "cannot be written") || !strings.Contains(lines[n-1], "again") {
			t.Errorf("%d lines: %q", n, lines)
		}
	})
}

// CK7, cleanup edge case 36: a record goes for good, and a new life of
// the same UID is written only once it is gone.
func TestDeletedRecordIsGoneForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &checkpointtest.Disk{})
		b.note("a", checkpoint.Durable, 1)
		if err := b.keeper.Sync(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		b.keeper.Delete("a")
		if b.keeper.Get("a") != nil || len(b.keeper.All()) != 0 {
			t.Error("a deleted record is still there")
		}
		b.keeper.Update("a", func(*checkpoint.Record) checkpoint.Class {
			t.Error("a late acknowledgement reached a deleted record")
			return checkpoint.Lazy
		})
		if err := b.keeper.Sync(t.Context(), "a"); err != nil || b.onDisk("a") != 0 {
			t.Errorf("%v, version %d", err, b.onDisk("a"))
		}

		b.note("a", checkpoint.Durable, 2)
		_ = b.keeper.Sync(t.Context(), "a")
		b.set(syscall.EIO)
		b.keeper.Delete("a")
		b.keeper.Ensure("a", func(r *checkpoint.Record) checkpoint.Class {
			if r.Version != 0 {
				t.Errorf("the new life began with version %d", r.Version)
			}
			r.Name = "second life"
			return checkpoint.Durable
		})
		if r := b.keeper.Stored("a"); r != nil {
			t.Errorf("the disk has version %d of the new life", r.Version)
		}
		if err := b.keeper.Sync(t.Context(), "a"); !errors.Is(err, syscall.EIO) || b.onDisk("a") != 2 {
			t.Errorf("%v, version %d", err, b.onDisk("a"))
		}
		b.set(nil)
		if err := b.keeper.Sync(t.Context(), "a"); err != nil || load(t, b.disk).Records[0].Name != "second life" {
			t.Errorf("%v", err)
		}
	})
}

// A caller that gives up does not wait for a hanging disk, and
// neither loses its change.
func TestSyncEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &checkpointtest.Disk{})
		b.hold = make(chan struct{})
		b.note("a", checkpoint.Durable, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.keeper.Sync(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		close(b.hold)
		if err := b.keeper.Sync(t.Context(), "a"); err != nil || b.onDisk("a") != 1 {
			t.Errorf("%v", err)
		}
		if err := b.keeper.Run(t.Context()); !errors.Is(err, checkpoint.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
	})
}

// TestRemovedNewerRecordIsReplaced: CK2, IN2. An operator who removes the record of a newer version,
// as the problem advises, ends the problem: the pod's next record takes its place.
func TestRemovedNewerRecordIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &checkpointtest.Disk{}
		disk.Put("uid-newer", newer(t), 0)
		b := newBench(t, disk)
		b.note("uid-newer", checkpoint.Durable, 1)
		if err := b.keeper.Sync(t.Context(), "uid-newer"); err != nil || !b.keeper.ReadOnly("uid-newer") {
			t.Fatalf("%v, read-only %v", err, b.keeper.ReadOnly("uid-newer"))
		}
		if p := b.keeper.Problems(); len(p) != 1 || !strings.Contains(p[0].Advice, "remove the file") || strings.Contains(p[0].Advice, "nothing") {
			t.Errorf("listed: %v", p)
		}
		if err := disk.Remove("uid-newer"); err != nil {
			t.Fatal(err)
		}
		b.note("uid-newer", checkpoint.Durable, 2)
		<-time.After(time.Minute)
		if p := b.keeper.Problems(); p != nil || b.keeper.ReadOnly("uid-newer") {
			t.Errorf("read-only %v, listed: %v", b.keeper.ReadOnly("uid-newer"), p)
		}
	})
}

// CK2, status.md 9.5: a damaged record is in the health until it is replaced or no source wants the
// pod; a newer one is there as long as it exists, and its pod continues without a record.
func TestTroublesAreInTheHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &checkpointtest.Disk{}
		for _, name := range []string{"uid-wanted", "uid-gone"} {
			disk.Put(name, nil, 0)
		}
		disk.Put("uid-newer", newer(t), 0)
		b := newBench(t, disk)
		text := troubles(b.keeper).Error()
		for _, name := range []string{"uid-wanted: corrupt", "uid-gone: corrupt", "uid-newer: newer format"} {
			if !strings.Contains(text, name) {
				t.Errorf("health says nothing of %s: %s", name, text)
			}
		}
		if b.keeper.Problem("uid-wanted") == nil {
			t.Error("no problem of uid-wanted")
		}
		b.note("uid-wanted", checkpoint.Durable, 1)
		b.note("uid-newer", checkpoint.Durable, 1)
		if err := errors.Join(b.keeper.Sync(t.Context(), "uid-wanted"), b.keeper.Sync(t.Context(), "uid-newer")); err != nil {
			t.Errorf("Sync: %v", err)
		}
		b.keeper.Dismiss(func(uid types.UID) bool { return uid == "uid-wanted" })
		if text = troubles(b.keeper).Error(); strings.Contains(text, "corrupt") || !strings.Contains(text, "newer") {
			t.Errorf("health: %s", text)
		}
		if !b.keeper.ReadOnly("uid-newer") || b.keeper.Get("uid-newer").Version != 1 {
			t.Error("the pod with the newer record lost its memory")
		}
	})
}

// status.md 9.5: a store that cannot be read is not an empty store.
func TestFailedLoadIsNoEmptyStore(t *testing.T) {
	disk := &checkpointtest.Disk{}
	disk.Put("uid-1", file(t, record("uid-1", 1)), 0)
	points := &checkpointtest.Points{FS: disk, OnRead: func(string) error { return syscall.EIO }}
	keeper := checkpoint.NewKeeper(checkpoint.Options{Store: checkpoint.NewFiles(points)})
	if _, err := keeper.Load(t.Context()); !errors.Is(err, syscall.EIO) || troubles(keeper) == nil {
		t.Errorf("Load: %v, health %v", err, troubles(keeper))
	}
	points.OnRead = nil
	if _, err := keeper.Load(t.Context()); err != nil || troubles(keeper) != nil || keeper.Get("uid-1").Version != 1 {
		t.Errorf("second Load: %v, health %v", err, troubles(keeper))
	}
	if keeper.Stored("uid-1").Version != 1 || keeper.Stored("x") != nil {
		t.Error("Stored")
	}
}

// TestLateLoadOverwritesNothingNewer: IN16. Changes made while the records cannot be read are
// applied on top of them as soon as they can, and are written; another Load later changes nothing.
// Pods without such changes are as they were.
func TestLateLoadOverwritesNothingNewer(t *testing.T) {
	const n = 10
	uid := func(i int) types.UID { return types.UID(fmt.Sprintf("uid-%d", i)) }
	disk := &checkpointtest.Disk{}
	for i := range n {
		disk.Put(string(uid(i)), file(t, &checkpoint.Record{UID: uid(i), Name: "old", Version: 1, BootID: "before"}), 0)
	}
	points := &checkpointtest.Points{FS: disk, OnRead: func(string) error { return syscall.EIO }}
	keeper := checkpoint.NewKeeper(checkpoint.Options{Store: checkpoint.NewFiles(points), BootID: "now"})
	if _, err := keeper.Load(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Load: %v", err)
	}
	set := func(version uint64) func(r *checkpoint.Record) checkpoint.Class {
		return func(r *checkpoint.Record) checkpoint.Class { r.Version = version; return checkpoint.Durable }
	}
	for i := range n - 1 { // all but one
		if i%2 == 0 {
			keeper.Ensure(uid(i), set(7))
		} else {
			keeper.Update(uid(i), set(7))
		}
	}
	keeper.Ensure("uid-new", set(7))
	points.OnRead = nil
	loaded, err := keeper.Load(t.Context())
	if err != nil || len(loaded.Records) != n {
		t.Fatalf("second Load: %v, %d records", err, len(loaded.Records))
	}
	check := func(what string, get func(types.UID) *checkpoint.Record, version uint64) {
		t.Helper()
		for i := range n {
			want := version
			if i == n-1 {
				want = 1
			}
			if r := get(uid(i)); r == nil || r.Version != want || r.Name != "old" {
				t.Errorf("%s: %s is %+v, want version %d", what, uid(i), r, want)
			}
		}
	}
	check("after the late Load", keeper.Get, 7)
	for _, r := range loaded.Records {
		if r.BootID != "before" { // status.md 9.7: who loads has to see that the machine was restarted
			t.Errorf("%s is of boot %q", r.UID, r.BootID)
		}
	}
	if r := keeper.Get("uid-new"); r == nil || r.Version != 7 {
		t.Errorf("a pod that came meanwhile: %+v", r)
	}
	for i := range n - 1 {
		keeper.Update(uid(i), set(8))
	}
	if _, err := keeper.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("after another Load", keeper.Get, 8)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- keeper.Run(ctx) }()
	for i := range n - 1 {
		if err := keeper.Sync(t.Context(), uid(i)); err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	check("on the disk", keeper.Stored, 8)
}

// troubles joins the problems of a keeper.
func troubles(k *checkpoint.Keeper) error {
	var all []error
	for _, p := range k.Problems() {
		all = append(all, p)
	}
	return errors.Join(all...)
}
